"""Topic and offset queries, independent of the assignment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer.poll_loop import PollLoop
from kafkalog.client.consumer.threads import Monitor, Worker
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import OffsetAndTimestamp, TopicPartition

T = TypeVar("T")


class OffsetQueries:
    """Ask the cluster about topics and offsets.

    A consumer has one, and keeps other threads out while it asks. Deadlines are in seconds of `time.monotonic`. All
    queries raise WakeupError where another thread calls `Monitor.wakeup`.
    """

    def __init__(self, cluster: Cluster, isolation_level: int, monitor: Monitor, loop: PollLoop) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level
        self._monitor, self._loop = monitor, loop

    def partitions_for(self, topic: str, deadline: float) -> list[TopicPartition]:
        """List a topic's partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        found = self._run(lambda: self._cluster.partitions(topic, deadline=deadline), deadline)
        return [TopicPartition(topic, number) for number in found]

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record of each partition that is not older than a timestamp (ms); None where there is none."""
        found = self._list_offsets(timestamps, deadline)
        asked = (TopicPartition(*tp) for tp in timestamps)
        return {tp: each if (each := found.get(tp)) is not None and each.offset >= 0 else None for tp in asked}

    def offsets(self, timestamps: Mapping[TopicPartition, int], deadline: float) -> dict[TopicPartition, int]:
        """Find the offsets of timestamps such as `EARLIEST` and `LATEST`."""
        return {tp: each.offset for tp, each in self._list_offsets(timestamps, deadline).items()}

    def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        wanted = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}

        def look_up() -> dict[TopicPartition, OffsetAndTimestamp]:
            return list_offsets(self._cluster, wanted, self._isolation_level, deadline, leave_out_old_formats=True)

        return self._run(look_up, deadline)

    def _run(self, call: Callable[[], T], deadline: float) -> T:
        """Run a query in a thread of its own, because the wait for a broker cannot be interrupted.

        After a wakeup the thread goes on until the deadline, or until the consumer is closed.
        """
        worker = Worker("kafkalog-consumer-query", self._monitor.notify)
        future = worker.submit(call)
        worker.stop(0)
        return self._loop.wait_for(future, deadline, "the query")
