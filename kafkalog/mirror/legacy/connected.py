"""Streams whose groups are in ZooKeeper, as those of consumers of Kafka 0.8 (`kafkalog.client.connector`).

A connector commits what counts as consumed: each `offset.commit.interval.ms`, before a rebalance and at its end. Here
records count so once the target has them. The records that were sent and not flushed when partitions go to another
member come twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from kafkalog.client.connector import ConsumerConnector
from kafkalog.mirror.legacy.deliveries import Deliveries
from kafkalog.mirror.legacy.mirroring import Mirroring

OLD_CONSUMER = frozenset({"zookeeper.connect", "zk.connect"})
"""Each of these makes the properties those of an old consumer, unless there is `bootstrap.servers`."""
_POLL_S = 0.25
_RECORDS = 500
FLUSH_S = 1.0
"""How often records that came count as consumed: the more often, the fewer come twice after a rebalance."""


def is_old_consumer(properties: Mapping[str, str]) -> bool:
    """Tell whether properties are those of a consumer of Kafka 0.8 or before."""
    return "bootstrap.servers" not in properties and not OLD_CONSUMER.isdisjoint(properties)


class ConnectedStream:
    """One connector with one stream, which sends by the producers of all streams.

    Args:
        consumer: The properties of the connector.
        mirroring: What it has in common with the other streams.
    """

    def __init__(self, consumer: Mapping[str, str], mirroring: Mirroring) -> None:
        self._properties = {
            **{key: text for key, text in consumer.items() if not key.startswith(("auto.commit.", "autocommit."))},
            "auto.commit.enable": "true",
            "auto.commit.interval.ms": str(max(1, round(mirroring.commit_interval * 1000))),
        }
        self._topics, self._senders = mirroring.topics, mirroring.senders
        self._deliveries = Deliveries(mirroring.abort)

    def run(self, stop: threading.Event, wait_for_others: Callable[[], None]) -> None:
        """Mirror until `stop` is set, then commit; `wait_for_others` is called before the group is left.

        Raises:
            SendFailedError: A record could not be delivered.
            KafkaError, ClientError: The source, its ZooKeeper or the target refuses the client.
        """
        with ConsumerConnector(self._properties) as connector:
            (stream,) = connector.create_message_streams_by_filter(self._topics, 1)
            flush_at = time.monotonic() + FLUSH_S
            while not stop.is_set():
                for record in stream.poll(_POLL_S, _RECORDS):
                    self._senders.send(record, self._deliveries)
                if self._deliveries.have_failed or time.monotonic() >= flush_at:
                    self._flush()
                    stream.consumed()
                    flush_at = time.monotonic() + FLUSH_S
            self._flush()
            stream.consumed()
            wait_for_others()

    def _flush(self) -> None:
        self._senders.flush()
        self._deliveries.check()
