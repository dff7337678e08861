"""What there is to read, whatever a consumer reads of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.offsets import list_offsets
from kafkalog.client.types import EARLIEST, LATEST, OffsetAndTimestamp, TopicPartition


class Inquiries:
    """The consumer's questions about topics; ``use`` keeps other threads out meanwhile."""

    def __init__(self, client: ClientConfig, cluster: Cluster, use: Callable[[], AbstractContextManager[None]]) -> None:
        self._client, self._cluster, self._use = client, cluster, use

    def partitions_for(self, topic: str, timeout: float | None = None) -> list[TopicPartition]:
        """A topic's partitions. UnknownTopicOrPartitionError where there is no such topic."""
        with self._use():
            numbers = self._cluster.partitions(topic, deadline=self._deadline(timeout))
            return [TopicPartition(topic, number) for number in numbers]

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record of each partition that is not older than a timestamp (ms); None where there is none."""
        with self._use():
            found = self._list_offsets(timestamps, timeout)
            return {tp: each if each.offset >= 0 else None for tp, each in found.items()}

    def beginning_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offsets that there are."""
        return self._ends(partitions, EARLIEST, timeout)

    def end_offsets(
        self, partitions: Iterable[TopicPartition], timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The high watermarks; to read_committed, the last stable offsets."""
        return self._ends(partitions, LATEST, timeout)

    def _ends(
        self, partitions: Iterable[TopicPartition], which: int, timeout: float | None
    ) -> dict[TopicPartition, int]:
        with self._use():
            found = self._list_offsets(dict.fromkeys(partitions, which), timeout)
            return {tp: each.offset for tp, each in found.items()}

    def _list_offsets(
        self, timestamps: Mapping[TopicPartition, int], timeout: float | None
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        wanted = {TopicPartition(*tp): timestamp for tp, timestamp in timestamps.items()}
        return list_offsets(self._cluster, wanted, self._client.isolation_level, self._deadline(timeout))

    def _deadline(self, timeout: float | None) -> float:
        return time.monotonic() + (self._client.default_api_timeout if timeout is None else timeout)
