"""The producers of the target.

Keys and values pass as bytes, whatever serializers the properties name.

Properties of the producer of Kafka 0.8 and before are read by `old_properties`.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping

from kafkalog.client.closing import Closing
from kafkalog.client.old_producer.config import OldProducerConfig
from kafkalog.client.producer import Producer
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.properties.foreign import warn_about
from kafkalog.client.types import ConsumerRecord
from kafkalog.client.zookeeper.brokers import in_session
from kafkalog.mirror.legacy.defaults import PRODUCER, with_defaults
from kafkalog.mirror.legacy.deliveries import Deliveries
from kafkalog.mirror.legacy.old_properties import is_old_producer, old_config
from kafkalog.mirror.legacy.passing import SERIALIZERS, without


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
            self._old = old_config(properties)
            self._brokers = _brokers(self._old)
            warn_about(self._old.producer(self._brokers, compress=False).unknown)
        else:
            given = without(SERIALIZERS, properties, "keys and values pass as bytes")
            self._producers[False] = Producer(with_defaults(PRODUCER, given))

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
                self._producers[compress] = Producer(
                    old.producer(self._brokers, compress=compress), counts_refusals=True
                )
            return self._producers[compress]


def _brokers(config: OldProducerConfig) -> str:
    if config.broker_list:
        return config.broker_list
    protocol = ProducerConfig.from_dict({**config.rest, "bootstrap.servers": "localhost:1"}).client.security_protocol
    with config.open_session() as session:
        return in_session(session, protocol)
