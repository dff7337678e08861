"""The options of the sink: names, defaults, checks and messages of Spark's own Kafka sink.

Reference: Spark's Structured Streaming + Kafka Integration Guide. PySpark passes options with lower-cased names, so
names are compared without regard to case. `kafka.*` options are producer properties
(`kafkalog.client.producer.config`).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches

from kafkalog.client.errors import ConfigError
from kafkalog.client.producer import ProducerConfig
from kafkalog.client.properties.foreign import warnings_about
from kafkalog.storage.topics import CONSUMER_OFFSETS
from spark_kafkalog.delegation import clusters
from spark_kafkalog.delegation.application import application_settings
from spark_kafkalog.options.parsing import OptionsError, missing_servers
from spark_kafkalog.sink.transactional.transaction_options import OnceOptions

__all__ = ["OptionsError", "SinkOptions"]

logger = logging.getLogger(__name__)

_PREFIX = "kafka."
OPTIONS = ("topic", "includeHeaders", "ledgerTopic", "lostTransactions", "batchId")
"""`includeHeaders` is for sources; a sink always writes the column `headers` if there is one."""
TRANSACTION_TIMEOUT_MS = "900000"
"""The default of `kafka.transaction.timeout.ms`: the most that brokers allow by default."""
_LEDGER_TOPIC = CONSUMER_OFFSETS
"""The default of `ledgerTopic` if rows go to various topics."""
_OF_SPARK = frozenset({"checkpointlocation", "path", "queryname"})
"""Options that Spark itself reads and passes on."""

_REFUSED_PROPERTIES = {
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized with ByteArraySerializer.",
    "value.serializer": "Kafka option 'value.serializer' is not supported as value are serialized with "
    "ByteArraySerializer.",
    "partitioner.class": "Kafka option 'partitioner.class' is not supported: rows go where Kafka's built-in "
    "partitioner puts them. Use the column 'partition' to choose partitions.",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported: there is no JVM to run them.",
}


@dataclass(frozen=True)
class SinkOptions:
    """Options of one sink, checked."""

    producer: ProducerConfig = field(repr=False)
    topic: str | None = None
    """The topic of all rows; it overrides the column `topic`."""
    once: OnceOptions | None = None
    """Settings of the transactional mode, if `kafka.transactional.id` is set."""
    batch_id: int | None = None
    """The number of the micro-batch that a batch query writes (`batchId`), so that it is written only once."""
    token_cluster: clusters.TokenCluster | None = None
    """The cluster whose delegation token the query takes, or None. Without the token, `producer` cannot log in."""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The `kafka.*` options, without that prefix; passwords may be among them."""
    token_ends_at: int | None = None
    """The end of the delegation token by which `producer` logs in, in milliseconds since 1970; None if it has none."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> SinkOptions:
        """Check and convert options.

        Raises:
            OptionsError: An option is wrong. The message is that of Spark's sink where it has one.
        """
        given = {name.lower(): value for name, value in options.items()}
        properties = {name[len(_PREFIX) :]: value for name, value in given.items() if name.startswith(_PREFIX)}
        for name, message in _REFUSED_PROPERTIES.items():
            if name in properties:
                raise OptionsError(message)
        if not properties.get("bootstrap.servers", "").strip():
            raise missing_servers(options, "producer")
        topic = given.get("topic")
        if topic is not None:
            topic = topic.strip()
            if not topic:
                raise OptionsError("Option 'topic' is empty: name a topic, or leave it out and use the column 'topic'")
        properties.setdefault("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
        try:
            cluster = clusters.cluster_for(properties, application_settings(options))
            producer = ProducerConfig.from_dict(properties if cluster is None else cluster.with_token(properties, None))
        except ConfigError as error:
            raise OptionsError(f"kafka.{error}") from None
        _warn_about_unknown(options, producer)
        once, batch_id = _once(given, producer, topic), _batch_id(given, producer)
        return cls(producer, topic, once, batch_id, cluster, properties)

    def logged_in(self) -> SinkOptions:
        """Return options with which clients can log in, on the driver: with a delegation token, where one is needed.

        They can be sent to executors: they do not have the login by which the driver gets tokens.

        Raises:
            OptionsError: The settings `spark.kafka.clusters.…` are no client properties.
            AuthenticationError: The brokers give no token.
            ConnectionFailedError: They cannot be asked at present.
        """
        if self.token_cluster is None:
            return self
        from spark_kafkalog.delegation.tokens import token_for

        token = token_for(self.token_cluster)
        properties = self.token_cluster.with_token(self.properties, token)
        producer = ProducerConfig.from_dict(properties)
        once = None if self.once is None else replace(self.once, client=producer.client)
        return replace(self, producer=producer, once=once, token_cluster=None, token_ends_at=token.expires_at)


def _once(given: Mapping[str, str], producer: ProducerConfig, topic: str | None) -> OnceOptions | None:
    lost = given.get("losttransactions", "fail").strip().lower()
    if lost not in ("fail", "skip"):
        raise OptionsError(f"Invalid value '{lost}' for option 'lostTransactions', should be 'fail' or 'skip'")
    if producer.transactional_id is None:
        return None
    return OnceOptions(
        client=producer.client,
        prefix=producer.transactional_id,
        ledger_topic=given.get("ledgertopic", "").strip() or topic or _LEDGER_TOPIC,
        transaction_timeout=producer.transaction_timeout,
        max_block=producer.max_block,
        skip_lost=lost == "skip",
    )


def _batch_id(given: Mapping[str, str], producer: ProducerConfig) -> int | None:
    text = given.get("batchid")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()):
        raise OptionsError(f"Invalid value '{text}' for option 'batchId', should be the number of a micro-batch")
    if producer.transactional_id is None:
        raise OptionsError("Option 'batchId' needs 'kafka.transactional.id', under which written batches are known")
    return int(text)


def _warn_about_unknown(options: Mapping[str, str], producer: ProducerConfig) -> None:
    """Warn about unknown options: a misspelt one would otherwise be ignored silently."""
    known = {name.lower() for name in OPTIONS}
    for name in sorted(options):
        if name.lower() not in known | _OF_SPARK and not name.lower().startswith((_PREFIX, clusters.PREFIX)):
            close = get_close_matches(name.lower(), known, n=1)
            meant = [option for option in OPTIONS if option.lower() in close]
            hint = f"; did you mean {meant[0]}?" if meant else ""
            logger.warning("Option %s is not known and has no effect%s", name, hint)
    for text in warnings_about(producer.unknown, "Option", "kafka."):
        logger.warning("%s", text)
