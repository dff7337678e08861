"""Topic and offset queries, independent of the assignment."""

from __future__ import annotations

from collections.abc import Mapping

from kafkalog.client.cluster import Cluster
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import OffsetAndTimestamp, TopicPartition


class OffsetQueries:
    """Ask the cluster about topics and offsets.

    A consumer has one, and keeps other threads out while it asks. Deadlines are in seconds of `time.monotonic`.
    """

    def __init__(self, cluster: Cluster, isolation_level: int) -> None:
        self._cluster = cluster
        self._isolation_level = isolation_level

    def partitions_for(self, topic: str, deadline: float) -> list[TopicPartition]:
        """List a topic's partitions.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
        """
        return [TopicPartition(topic, number) for number in self._cluster.partitions(topic, deadline=deadline)]

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Find the first record of each partition that is not older than a timestamp (ms); None where there is none."""
        found = self._list_offsets(timestamps, deadline)
        return {tp: each if each.offset >= 0 else None for tp, each in found.items()}

    def offsets(self, timestamps: Mapping[TopicPartition, int], deadline: float) -> dict[TopicPartition, int]:
        """Find the offsets of timestamps such as `EARLIEST` and `LATEST`."""
        return {tp: each.offset for tp, each in self._list_offsets(timestamps, deadline).items()}

    def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], deadline: float
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        wanted = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        return list_offsets(self._cluster, wanted, self._isolation_level, deadline)
