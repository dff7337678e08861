"""Look up the offsets of timestamps, at each leader separately and in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import NamedTuple
from uuid import UUID

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.subscription import PartitionState
from kafkalog.client.consumer.threads import Worker
from kafkalog.client.offsets import Answers, ask_leaders
from kafkalog.client.types import OffsetAndTimestamp, TopicPartition
from kafkalog.protocol.schema import ZERO_UUID

_PATIENCE_S = 5.0
"""The time that one leader may take before metadata is fetched again."""


class OffsetLookup(NamedTuple):
    """A partition, the version of its state, the timestamp (ms) to look up, and the topic's id, zero where unknown."""

    state: PartitionState
    version: int
    timestamp: int
    topic_id: UUID = ZERO_UUID


class OffsetLookups:
    """The look-ups under way. `wake` is called when one has finished."""

    def __init__(self, cluster: Cluster, isolation_level: int, wake: Callable[[], None]) -> None:
        self._cluster, self._isolation_level, self._wake = cluster, isolation_level, wake
        self._asked: dict[int, tuple[Mapping[TopicPartition, OffsetLookup], Future[Answers]]] = {}

    @property
    def partitions(self) -> set[TopicPartition]:
        """The partitions that are being looked up."""
        return {tp for wanted, _ in self._asked.values() for tp in wanted}

    def idle(self, node_id: int) -> bool:
        """Tell whether no look-up at this leader is under way."""
        return node_id not in self._asked

    def begin(self, node_id: int, wanted: Mapping[TopicPartition, OffsetLookup]) -> None:
        """Begin a look-up at a leader that is `idle`. The leader is asked once."""
        timestamps = {tp: each.timestamp for tp, each in wanted.items()}
        deadline = time.monotonic() + _PATIENCE_S
        worker = Worker(f"kafkalog-consumer-offsets-{node_id}", self._wake)
        found = worker.submit(lambda: ask_leaders(self._cluster, timestamps, self._isolation_level, deadline))
        worker.stop(0)
        self._asked[node_id] = wanted, found

    def finished(self) -> list[tuple[OffsetLookup, OffsetAndTimestamp | Exception]]:
        """Return the results of look-ups that have finished since the last call: each partition's offset or error."""
        ended: list[tuple[OffsetLookup, OffsetAndTimestamp | Exception]] = []
        for node_id in [node_id for node_id, (_, future) in self._asked.items() if future.done()]:
            wanted, future = self._asked.pop(node_id)
            try:
                found = future.result()
            except Exception as error:
                ended += [(each, error) for each in wanted.values()]
            else:
                ended += [(each, found[tp]) for tp, each in wanted.items()]
        return ended
