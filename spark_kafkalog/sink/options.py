"""The options of the sink: names, defaults, checks and messages of Spark's own Kafka sink.

Reference: Spark's Structured Streaming + Kafka Integration Guide. PySpark hands over options with lower-cased names;
they are compared without regard to case. ``kafka.*`` options are producer properties
(``kafkalog.client.producer.config``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches

from kafkalog.client.errors import ConfigError
from kafkalog.client.producer import ProducerConfig
from spark_kafkalog.options import OptionsError

__all__ = ["OptionsError", "SinkOptions"]

_log = logging.getLogger(__name__)

_PREFIX = "kafka."
_OPTIONS = ("topic", "includeHeaders")
"""``includeHeaders`` is for sources; a sink has always written the column ``headers`` where there is one."""
_OF_SPARK = frozenset({"checkpointlocation", "path", "queryname"})
"""What Spark itself reads and hands on."""

_REFUSED_PROPERTIES = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": "Kafka option 'value.serializer' is not supported as value are serialized with "
    "ByteArraySerializer.",
    "transactional.id": "Kafka option 'transactional.id' is not supported by this sink: it writes at least once, "
    "without transactions. Leave it out; rows may be there twice where Spark repeats a task.",
    "partitioner.class": "Kafka option 'partitioner.class' is not supported: rows go where Kafka's built-in "
    "partitioner puts them. Use the column 'partition' to choose partitions.",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported: there is no JVM to run them.",
}


@dataclass(frozen=True)
class SinkOptions:
    """Options of one sink."""

    producer: ProducerConfig = field(repr=False)
    topic: str | None = None
    """Where all rows go, whatever their column ``topic`` says."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check and convert; raises OptionsError with the message of Spark's sink where it has one."""
        given = {name.lower(): value for name, value in options.items()}
        properties = {name[len(_PREFIX) :]: value for name, value in given.items() if name.startswith(_PREFIX)}
        for name, message in _REFUSED_PROPERTIES.items():
            if name in properties:
                raise OptionsError(message)
        if not properties.get("bootstrap.servers", "").strip():
            raise OptionsError("Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer")
        topic = given.get("topic")
        if topic is not None:
            topic = topic.strip()
            if not topic:
                raise OptionsError("Option 'topic' is empty: name a topic, or leave it out and use the column 'topic'")
        try:
            producer = ProducerConfig.from_dict(properties)
        except ConfigError as error:
            raise OptionsError(f"kafka.{error}") from None
        _warn_about_unknown(options, producer)
        return cls(producer, topic)


def _warn_about_unknown(options: Mapping[str, str], producer: ProducerConfig) -> None:
    """Tell of options that nothing here knows: a misspelt one would otherwise do nothing in silence."""
    known = {name.lower() for name in _OPTIONS}
    for name in sorted(options):
        if name.lower() not in known | _OF_SPARK and not name.lower().startswith(_PREFIX):
            close = get_close_matches(name.lower(), known, n=1)
            meant = [option for option in _OPTIONS if option.lower() in close]
            hint = f"; did you mean {meant[0]}?" if meant else ""
            _log.warning("Option %s is not known and has no effect%s", name, hint)
    for key in sorted(producer.unknown):
        _log.warning("Option kafka.%s is not known and has no effect", key)
