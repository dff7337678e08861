"""A batch that the leader has appended, and whether it may be acknowledged."""

from __future__ import annotations

from typing import NamedTuple

from broker.log.append.append_info import AppendInfo
from broker.replica.partition import ACKS_ALL, Partition
from kafkalog.protocol.errors import ErrorCode


class Appended(NamedTuple):
    """A batch that the leader appended, and the conditions for its acknowledgement."""

    partition: Partition
    info: AppendInfo
    """The offsets and times of its records."""
    leader_epoch: int
    """The leader epoch in which it was appended."""
    acks: int
    """The `acks` of the produce request."""
    sync: bool
    """True if `flush.messages` asks for an fsync before it is acknowledged."""

    @property
    def first_offset(self) -> int:
        return self.info.first_offset

    @property
    def last_offset(self) -> int:
        return self.info.last_offset

    def outcome(self) -> ErrorCode | None:
        """Return whether the append may be acknowledged now.

        With acks=all it waits for the high watermark, as in Kafka's `Partition.checkEnoughReplicasReachOffset`. An
        append from an earlier leadership never succeeds, because a leader in between may have truncated it. It can
        still succeed if this broker was re-elected without a break, because then its log was not truncated.

        Returns:
            None while it has to wait; NONE; or the error: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, or
            NOT_ENOUGH_REPLICAS_AFTER_APPEND if the ISR has shrunk below `min.insync.replicas` since.
        """
        partition = self.partition
        leading = partition.leading
        if leading is None or self.leader_epoch < leading.since:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        log, end, is_all = partition.log, self.info.last_offset + 1, self.acks == ACKS_ALL
        if (is_all and log.offsets.high_watermark < end) or (self.sync and log.recovery_point < end):
            return None if log.offline is None else ErrorCode.KAFKA_STORAGE_ERROR
        if is_all and partition.min_insync > 1 and len(leading.maximal_isr) < partition.effective_min_insync:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE
