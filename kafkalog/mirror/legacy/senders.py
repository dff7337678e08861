"""The producers of the target.

Keys and values pass as bytes, whatever serializers the properties name.

Properties of the producer of Kafka 0.8 and before name the brokers by `metadata.broker.list` or `zk.connect`. They are
read as `kafkalog.client.old_producer` reads them, with these exceptions, which are as in MirrorMaker since Kafka 0.9:

- Keys choose partitions as in the producer of today.
- Unless `request.required.acks` is set, a record counts as delivered once every replica in the ISR has it.
- Unless `message.send.max.retries` is set, a record is sent again until it is delivered.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

from kafkalog.client.closing import Closing
from kafkalog.client.old_producer.config import OldProducerConfig
from kafkalog.client.producer import Producer
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.properties.foreign import warn_about
from kafkalog.client.types import ConsumerRecord
from kafkalog.client.zookeeper.brokers import in_session
from kafkalog.mirror.legacy.deliveries import Deliveries
from kafkalog.mirror.legacy.passing import SERIALIZERS, without

logger = logging.getLogger(__name__)

OLD_PRODUCER = frozenset({"metadata.broker.list", "broker.list", "zk.connect", "zookeeper.connect"})
"""Each of these makes the properties those of an old producer, unless there is `bootstrap.servers`."""
_FOR_EVER = {"delivery.timeout.ms": str(0x7FFFFFFF), "max.block.ms": str(0x7FFFFFFF)}
_NO_LOSS = {"acks": "all", "max.in.flight.requests.per.connection": "1", **_FOR_EVER}
"""Defaults with which the producer loses and reorders nothing."""
_OLD_CLASSES = ("partitioner.class", "serializer.class", "key.serializer.class")


def is_old_producer(properties: Mapping[str, str]) -> bool:
    """Tell whether properties are those of a producer of Kafka 0.8 or before."""
    return "bootstrap.servers" not in properties and not OLD_PRODUCER.isdisjoint(properties)


class Senders(Closing):
    """One producer for all topics; two if an old one's properties compress some topics only.

    Args:
        properties: Those of the target's producer, of today or of Kafka 0.8.

    Raises:
        ConfigError: A property cannot have its value.
        ZooKeeperError: With `zk.connect`: ZooKeeper does not answer, or knows no broker.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._lock = threading.Lock()
        self._producers: dict[bool, Producer] = {}
        self._old: OldProducerConfig | None = None
        if is_old_producer(properties):
            self._old = _old_config(properties)
            self._brokers = _brokers(self._old)
            warn_about(self._old.producer(self._brokers, compress=False).unknown)
        else:
            given = without(SERIALIZERS, properties, "keys and values pass as bytes")
            self._producers[False] = Producer({**_NO_LOSS, **given})

    def send(self, record: ConsumerRecord, deliveries: Deliveries) -> None:
        """Send a record to the topic of the same name; `deliveries` gets the outcome."""
        timestamp = None if record.timestamp < 0 else record.timestamp
        self._producer(record.topic).send(
            record.topic, record.value, record.key, record.headers, timestamp, on_delivery=deliveries.note
        )

    def flush(self) -> None:
        """Wait until all records have an outcome."""
        with self._lock:
            producers = list(self._producers.values())
        for producer in producers:
            producer.flush()

    def close(self) -> None:
        """Send what waits, and close the producers."""
        for producer in self._producers.values():
            producer.close()

    def _producer(self, topic: str) -> Producer:
        old = self._old
        if old is None:
            return self._producers[False]
        compress = old.is_compressed(topic)
        with self._lock:
            if compress not in self._producers:
                self._producers[compress] = Producer(old.producer(self._brokers, compress=compress))
            return self._producers[compress]


def _old_config(properties: Mapping[str, str]) -> OldProducerConfig:
    reason = "keys and values pass as bytes, and keys choose partitions"
    given = without((*_OLD_CLASSES, *SERIALIZERS), properties, reason)
    more: dict[str, Any] = dict(_FOR_EVER)
    if "request.required.acks" not in given:
        more["acks"] = "all"
    if not {"message.send.max.retries", "num.retries"} & given.keys():
        more["retries"] = str(0x7FFFFFFF)
    config = OldProducerConfig.from_dict({**given, **more})
    if config.instead:
        listed = "; ".join(f"{key} ({what})" for key, what in sorted(config.instead.items()))
        logger.warning("without effect here: %s", listed)
    if config.required_acks == 0 and "request.required.acks" in given:
        logger.warning("request.required.acks=0: records that the target does not take are lost without an error")
    return config


def _brokers(config: OldProducerConfig) -> str:
    if config.broker_list:
        return config.broker_list
    protocol = ProducerConfig.from_dict({**config.rest, "bootstrap.servers": "localhost:1"}).client.security_protocol
    with config.open_session() as session:
        return in_session(session, protocol)
