"""Streams whose groups are in ZooKeeper, as those of consumers of Kafka 0.8 (`kafkalog.client.connector`).

A connector commits what counts as consumed: each `offset.commit.interval.ms`, before partitions go to another member
and at its end. Here records count so once the target has them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Set

from kafkalog.client.connector import ConsumerConnector, MessageStream
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.legacy.deliveries import Deliveries
from kafkalog.mirror.legacy.mirroring import Mirroring

OLD_CONSUMER = frozenset({"zookeeper.connect", "zk.connect"})
"""Each of these makes the properties those of an old consumer, unless there is `bootstrap.servers`."""
_POLL_S = 0.25
_RECORDS = 500
FLUSH_S = 1.0
"""The interval at which records that came count as consumed: the shorter it is, the fewer come twice after a crash."""


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
        self._stream: MessageStream | None = None
        self._sending = threading.Lock()
        """Held from the time that records are taken until all of them are sent."""
        self._may_take = threading.Event()
        """Not set while partitions are about to be released."""
        self._may_take.set()
        self._has_failed = False
        """Records may have been taken that were never sent. Changed and read with `_sending` held."""

    def run(self, stop: threading.Event, wait_for_others: Callable[[], None]) -> None:
        """Mirror until `stop` is set, then commit; `wait_for_others` is called before the group is left.

        Raises:
            SendFailedError: A record could not be delivered.
            KafkaError, ClientError: The source, its ZooKeeper or the target refuses the client.
        """
        with ConsumerConnector(self._properties) as connector:
            connector.set_rebalance_listener(self)
            (stream,) = connector.create_message_streams_by_filter(self._topics, 1)
            self._stream = stream
            flush_at = time.monotonic() + FLUSH_S
            while not stop.is_set():
                self._may_take.wait()
                self._send(stream)
                if self._deliveries.have_failed or time.monotonic() >= flush_at:
                    self._flush()
                    stream.consumed()
                    flush_at = time.monotonic() + FLUSH_S
            self._flush()
            stream.consumed()
            wait_for_others()

    def before_releasing_partitions(self, partitions: Set[TopicPartition]) -> None:
        """Wait until the target has what was taken, so that it is committed before another member goes on."""
        if (stream := self._stream) is None:
            return
        # Locks are not fair: the other thread could take one again and again.
        self._may_take.clear()
        try:
            with self._sending:
                if not self._has_failed:
                    self._flush()
                    stream.consumed()
        finally:
            self._may_take.set()

    def _send(self, stream: MessageStream) -> None:
        with self._sending:
            try:
                for record in stream.poll(_POLL_S, _RECORDS):
                    self._senders.send(record, self._deliveries)
            except BaseException:
                self._has_failed = True
                raise

    def _flush(self) -> None:
        self._senders.flush()
        self._deliveries.check()
