"""One partition as this broker holds it: leader, ISR, high watermark.

A partition on a lone broker is a partition whose ISR is its leader (DESIGN D13): the high watermark is the smallest
log end offset over the ISR, here the leader's own, and ``acks=all`` waits for it like it would with followers.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.log.append_info import AppendInfo
from broker.log.legacy.message_sets import PreparedSet
from broker.log.log import Log
from broker.log.segment_file import ReadResult
from broker.log.validation import CheckedBatch, Origin
from broker.metadata.model import PartitionState
from broker.metrics.counters import TopicCounters
from kafkalog.protocol.errors import (
    ErrorCode,
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    PolicyViolationError,
    UnknownLeaderEpochError,
)
from kafkalog.storage.transaction_entries import AbortedTransaction

READ_UNCOMMITTED = 0
READ_COMMITTED = 1
NO_LEADER = -1
NO_LEADER_EPOCH = -1
ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


class Appended(NamedTuple):
    """A batch that the leader appended, and what its acknowledgement waits for.

    Attributes:
        info: the offsets and times of its records.
        leader_epoch: the leader epoch in which it was appended.
        acks: what its producer asked for.
        sync: whether ``flush.messages`` asks for an fsync before it is acknowledged.
    """

    partition: Partition
    info: AppendInfo
    leader_epoch: int
    acks: int
    sync: bool

    @property
    def first_offset(self) -> int:
        return self.info.first_offset

    @property
    def last_offset(self) -> int:
        return self.info.last_offset


class Partition:
    """See the module. Used on the event loop's thread only."""

    __slots__ = (
        "broker_id",
        "counters",
        "index",
        "isr",
        "key",
        "leader",
        "leader_epoch",
        "leading_since",
        "log",
        "min_insync",
        "replicas",
        "topic",
    )

    def __init__(
        self, topic: str, index: int, broker_id: int, log: Log, min_insync: int, counters: TopicCounters
    ) -> None:
        self.counters = counters
        self.topic = topic
        self.index = index
        self.key = (topic, index)
        self.broker_id = broker_id
        self.log = log
        self.min_insync = min_insync
        self.leader = NO_LEADER
        self.leader_epoch = NO_LEADER_EPOCH
        self.leading_since = NO_LEADER_EPOCH
        """The epoch in which this broker became leader; it has led in every later epoch too."""
        self.replicas: tuple[int, ...] = ()
        self.isr: frozenset[int] = frozenset()

    def become(self, state: PartitionState) -> None:
        """Take the role that the registry gives this broker."""
        newer = state.leader_epoch > self.leader_epoch
        if not self.is_leader:
            self.leading_since = state.leader_epoch
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.replicas = state.replicas
        self.isr = frozenset(state.isr)
        if self.is_leader:
            if newer:
                # Before it has written anything: who asks where this epoch ends is told the log end offset.
                self.log.assign_epoch(state.leader_epoch)
            self._advance_high_watermark()

    def stop(self) -> None:
        """Give up the role: this broker does not host the partition any more."""
        self.leader = NO_LEADER
        self.isr = frozenset()

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    @property
    def effective_min_insync(self) -> int:
        """``min.insync.replicas``, or the number of replicas where that is smaller."""
        return min(self.min_insync, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Whether this broker leads the partition with fewer in-sync replicas than acks=all needs."""
        return self.is_leader and len(self.isr) < self.effective_min_insync

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return min(self.log.last_stable_offset, self.log.high_watermark)

    @property
    def must_sync(self) -> bool:
        """Whether ``flush.messages`` asks for an fsync before the newest records are acknowledged."""
        log = self.log
        return log.log_end_offset - log.recovery_point >= log.config.flush_messages

    def check_leader_epoch(self, epoch: int) -> None:
        """Fence a client that knows another leader epoch (KIP-320); -1 is a client that does not say.

        Raises:
            FencedLeaderEpochError: the client's epoch is older.
            UnknownLeaderEpochError: the client's epoch is newer.
            NotLeaderOrFollowerError: this broker does not lead the partition.
        """
        if epoch != NO_LEADER_EPOCH and epoch != self.leader_epoch:
            if epoch < self.leader_epoch:
                raise FencedLeaderEpochError
            raise UnknownLeaderEpochError
        if not self.is_leader:
            raise NotLeaderOrFollowerError

    def append(
        self,
        records: memoryview | CheckedBatch,
        acks: int,
        now_ms: int,
        *,
        origin: Origin = Origin.CLIENT,
        in_transaction: bool = False,
    ) -> AppendInfo:
        """Append one record batch of message format v2 as the leader, to a partition that stores v2.

        Coordinators of this broker append with an ``origin`` of their own: theirs may be transactional, or a marker.
        A client's transactional batch is taken where it is known to be ``in_transaction``.

        Raises:
            NotLeaderOrFollowerError: this broker does not lead the partition.
            NotEnoughReplicasError: ``acks`` is all and the ISR is smaller than ``min.insync.replicas``.
            KafkaError: the log refuses the batch or cannot be written.
        """
        self._check_may_append(acks)
        info = self.log.append_batch(
            records, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin, in_transaction=in_transaction
        )
        self._note_append(info)
        return info

    def append_legacy(
        self, prepared: PreparedSet | None, acks: int, now_ms: int, *, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Append as the leader what `prepare_set` made, where v0 or v1 is sent or stored.

        Raises:
            KafkaError: as `append`.
        """
        self._check_may_append(acks)
        info = self.log.append_legacy(prepared, leader_epoch=self.leader_epoch, now_ms=now_ms, origin=origin)
        self._note_append(info)
        return info

    def _check_may_append(self, acks: int) -> None:
        if not self.is_leader:
            raise NotLeaderOrFollowerError
        if acks == ACKS_ALL and self.is_under_min_isr:
            raise NotEnoughReplicasError(
                f"The size of the current ISR {sorted(self.isr)} is insufficient to satisfy the min.isr requirement "
                f"of {self.effective_min_insync} for partition {self.topic}-{self.index}"
            )

    def _note_append(self, info: AppendInfo) -> None:
        self._advance_high_watermark()
        if info.first_offset >= 0 and not info.duplicate:
            self.counters.messages_in += info.last_offset - info.first_offset + 1

    def acknowledged(self, append: Appended) -> ErrorCode | None:
        """Whether an append may be acknowledged now.

        With acks=all it waits for the high watermark, as Kafka's ``Partition.checkEnoughReplicasReachOffset``. An
        append of an earlier leadership never succeeds: a leader in between may have truncated it. It does succeed
        where this broker was elected again without a break, for its log was not touched.

        Returns:
            None while it has to wait; NONE; or the error: NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR, or
            NOT_ENOUGH_REPLICAS_AFTER_APPEND when the ISR shrank below ``min.insync.replicas`` meanwhile.
        """
        if not self.is_leader or append.leader_epoch < self.leading_since:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        log, end = self.log, append.info.last_offset + 1
        replicated = append.acks != ACKS_ALL or log.high_watermark >= end
        if not replicated or (append.sync and log.recovery_point < end):
            return None if log.offline is None else ErrorCode.KAFKA_STORAGE_ERROR
        if append.acks == ACKS_ALL and self.is_under_min_isr:
            return ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return ErrorCode.NONE

    def read(self, offset: int, max_bytes: int, isolation: int, leader_epoch: int, *, min_one: bool) -> ReadResult:
        """Record batches from ``offset`` for a consumer: up to the high watermark, or the last stable offset.

        Raises:
            OffsetOutOfRangeError: the offset is below the log start or above the log end.
        """
        self.check_leader_epoch(leader_epoch)
        bound = self.log.high_watermark if isolation == READ_UNCOMMITTED else self.last_stable_offset
        return self.log.read(offset, max_bytes, max_offset=bound, min_one=min_one)

    def is_behind(self, offset: int, isolation: int) -> bool:
        """Whether a consumer at ``offset`` may read on in a later segment."""
        end = self.log.high_watermark if isolation == READ_UNCOMMITTED else self.last_stable_offset
        return self.log.is_in_older_segment(offset, end)

    def aborted_within(self, offset: int, result: ReadResult) -> list[AbortedTransaction]:
        """The aborted transactions that a reader of committed records leaves out of what it read from ``offset``."""
        return self.log.aborted_within(offset, result, self.last_stable_offset)

    def latest_offset(self, isolation: int) -> int:
        """What a consumer calls the end of the partition.

        Raises:
            OffsetNotAvailableError: leadership is too fresh for the end to be known.
        """
        if self.log.high_watermark < 0:
            raise OffsetNotAvailableError
        return self.log.high_watermark if isolation == READ_UNCOMMITTED else self.last_stable_offset

    def delete_records(self, before: int) -> int:
        """Advance the log start offset to ``before`` (-1: the high watermark); the new log start offset.

        Raises:
            PolicyViolationError: the topic's ``cleanup.policy`` is compaction alone.
            OffsetOutOfRangeError: ``before`` is above the high watermark.
            NotLeaderOrFollowerError: this broker does not lead the partition.
        """
        if not self.is_leader:
            raise NotLeaderOrFollowerError
        if not self.log.config.delete:
            raise PolicyViolationError
        return self.log.delete_records(self.high_watermark if before == -1 else before)

    def _advance_high_watermark(self) -> None:
        # The ISR is the leader alone: what it has appended is what every in-sync replica has.
        self.log.high_watermark = self.log.log_end_offset
