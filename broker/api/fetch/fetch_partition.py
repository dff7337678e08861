"""One partition of a fetch: where its client is, and what it was told."""

from __future__ import annotations

import uuid
from typing import Any

UNKNOWN_OFFSET = -1

PartitionKey = tuple[Any, int]
"""(topic name before v13, topic id from then on; partition)"""


class FetchPartitionState:
    """One partition of a fetch, and what the session's last response said about it."""

    __slots__ = (
        "fetch_offset", "fetched_epoch", "leader_epoch", "log_start", "max_bytes", "name", "partition", "quiet",
        "sent_error", "sent_high_watermark", "sent_log_start", "topic_id",
    )  # fmt: skip

    def __init__(self, name: str, topic_id: uuid.UUID, partition: int) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partition = partition
        self.fetch_offset = 0
        self.leader_epoch = -1
        self.fetched_epoch = -1
        self.log_start = -1
        self.max_bytes = 0
        self.sent_high_watermark = self.sent_log_start = UNKNOWN_OFFSET
        self.sent_error = False
        self.quiet = 0
        """The number of responses in a row, up to the last one, that had no records of it."""

    def update(self, wanted: Any) -> None:
        """Take the position of a `FetchPartition` of the request.

        A client that names the partition again without having advanced may not have used what it was told: a follower
        does not where it has to truncate its log, or has a new leader epoch.
        """
        if wanted.fetch_offset <= self.fetch_offset or wanted.current_leader_epoch != self.leader_epoch:
            self.sent_high_watermark = self.sent_log_start = UNKNOWN_OFFSET
        self.fetch_offset = wanted.fetch_offset
        self.leader_epoch = wanted.current_leader_epoch
        self.fetched_epoch = wanted.last_fetched_epoch
        self.log_start = wanted.log_start_offset
        self.max_bytes = wanted.partition_max_bytes

    def changed(self, error: int, high_watermark: int, log_start: int, nbytes: int) -> bool:
        """Return whether an incremental response must name this partition, and note what it says."""
        news = (
            nbytes > 0
            or error != 0
            or self.sent_error
            or high_watermark != self.sent_high_watermark
            or log_start != self.sent_log_start
        )
        self.sent_high_watermark = high_watermark
        self.sent_log_start = log_start
        self.sent_error = error != 0
        self.quiet = 0 if nbytes else self.quiet + 1
        return news


def partition_key(state: FetchPartitionState, by_id: bool) -> PartitionKey:
    """Return the key of `state` in its session."""
    return (state.topic_id if by_id else state.name, state.partition)
