"""One partition on this broker: its log, and its role as leader or follower.

The high watermark is the smallest log end offset in the ISR, and `acks=all` waits for it. On a broker that is a cluster
of its own the ISR is the leader alone. The roles (`roles`) decide; the partition applies their decisions to its log.
"""

from __future__ import annotations

from collections.abc import Callable

from broker.counters import TopicCounters
from broker.log.append.append_info import AppendInfo
from broker.log.append.fetched import first_header
from broker.log.append.legacy.message_sets import PreparedSet
from broker.log.append.mirrored import MirroredRecords
from broker.log.append.validation import CheckedBatch, Origin
from broker.log.log import Log
from broker.log.log_config import MAX_LONG
from broker.log.segment.file_slices import ReadResult
from broker.metadata.model import PartitionState
from broker.replica.divergence import Truncation, divergence, truncation
from broker.replica.isolation import FetchIsolation
from broker.replica.isr.rules import UNKNOWN_BROKER_EPOCH
from broker.replica.roles import Leader, Role, role_of
from broker.replica.throttles import Throttled
from kafkalog.protocol.errors import (
    FencedLeaderEpochError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OffsetNotAvailableError,
    PolicyViolationError,
    UnknownLeaderEpochError,
)
from kafkalog.storage.transaction_entries import AbortedTransaction

NO_LEADER = -1
NO_LEADER_EPOCH = -1
ACKS_NONE, ACKS_LEADER, ACKS_ALL = 0, 1, -1


class Partition:
    """One partition on this broker. Used on the event loop's thread only.

    Attributes:
        throttled_leader, throttled_follower: whether its replication is throttled while this broker leads, or follows.
        leading: the role if this broker leads the partition, else None.
        is_told_by_id: whether the controller tells the topic's id. Amid an upgrade its leader may not know it else.
    """

    __slots__ = (
        "_alive", "_clock_ms", "_may_append", "broker_id", "counters", "index", "is_told_by_id", "key", "leading",
        "log", "max_lag_ms", "min_insync", "role", "throttled_follower", "throttled_leader", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        index: int,
        broker_id: int,
        log: Log,
        min_insync: int,
        counters: TopicCounters,
        *,
        max_lag_ms: int,
        clock_ms: Callable[[], int],
        alive: Callable[[], frozenset[int] | None] = lambda: None,
        may_append: Callable[[], bool] = lambda: True,
    ) -> None:
        self.counters = counters
        self.topic = topic
        self.index = index
        self.key = (topic, index)
        self.broker_id = broker_id
        self.log = log
        self.min_insync = min_insync
        self.max_lag_ms = max_lag_ms
        self._clock_ms = clock_ms
        self._alive = alive
        self._may_append = may_append
        self.is_told_by_id = True
        self.throttled_leader = False
        self.throttled_follower = False
        self.role: Role | None = None
        self.leading: Leader | None = None

    def throttle(self, throttled: Throttled) -> None:
        """Put the throttles of the topic in force."""
        leaders, followers = throttled
        self.throttled_leader = leaders is None or self.index in leaders
        self.throttled_follower = followers is None or self.index in followers

    # -- the role

    def become(self, state: PartitionState) -> bool:
        """Take the role that a controller gives this broker.

        Returns:
            Whether anything changed. A state of an older leader epoch is ignored. So is one of the current epoch that
            names another leader: within an epoch, only the ISR and the replicas may change.
        """
        before = self.role
        if before is not None and not before.is_superseded_by(state):
            return False
        self._take(role_of(state, self.broker_id, self.log.log_end_offset, self._clock_ms(), before))
        leading = self.leading
        if leading is not None:
            if before is None or leading.epoch > before.epoch:
                # Assigned before the first append, so that a follower that asks where this epoch ends gets the log end.
                self.log.assign_epoch(leading.epoch)
            self.advance_high_watermark()
        return True

    def stop(self) -> None:
        """Give up the role, because this broker no longer hosts the partition."""
        self._take(None)

    def _take(self, role: Role | None) -> None:
        self.role = role
        self.leading = role if isinstance(role, Leader) else None

    @property
    def is_leader(self) -> bool:
        return self.leading is not None

    @property
    def leader(self) -> int:
        """The leader's broker id; NO_LEADER if there is none or it is unknown."""
        return NO_LEADER if self.role is None else self.role.leader

    @property
    def leader_epoch(self) -> int:
        return NO_LEADER_EPOCH if self.role is None else self.role.epoch

    @property
    def led_since(self) -> int:
        """The leader epoch from which on this broker is known to have led without a break.

        NO_LEADER_EPOCH where it does not lead. The leader epoch grows each time that a replica leaves the ISR by the
        controller's decision; what a leader holds in memory stays true then. It counts as a break if this broker was
        not told of an epoch, as another broker may have led in that one.
        """
        return NO_LEADER_EPOCH if self.leading is None else self.leading.since

    @property
    def replicas(self) -> tuple[int, ...]:
        return () if self.role is None else self.role.replicas

    @property
    def isr(self) -> frozenset[int]:
        """The confirmed in-sync replicas; empty if this broker does not lead."""
        return frozenset() if self.leading is None else self.leading.isr

    @property
    def effective_min_insync(self) -> int:
        """`min.insync.replicas`, or the number of replicas if that is smaller."""
        return min(self.min_insync, len(self.replicas))

    @property
    def is_under_min_isr(self) -> bool:
        """Return whether this broker leads the partition with fewer in-sync replicas than acks=all needs."""
        return self.leading is not None and len(self.leading.isr) < self.effective_min_insync

    # -- followers, while this broker leads

    def check_follower(self, replica: int, leader_epoch: int) -> None:
        """Refuse a fetch by a broker that this leader does not know as a replica; the broker has to retry.

        Raises:
            FencedLeaderEpochError, UnknownLeaderEpochError, NotLeaderOrFollowerError: see `check_leader_epoch`. A
                broker that is not a replica gets the second, or the third if it does not name an epoch.
        """
        self.check_leader_epoch(leader_epoch)
        if self.leading is None or replica not in self.leading.followers:
            raise NotLeaderOrFollowerError if leader_epoch == NO_LEADER_EPOCH else UnknownLeaderEpochError

    def follower_fetched(
        self,
        replica: int,
        offset: int,
        log_start_offset: int,
        log_end: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> bool:
        """Note the fetch of a follower, whose log has every record before `offset`.

        Args:
            replica: the follower's broker id.
            offset: the offset that it fetches from.
            log_start_offset: the log start offset of the follower.
            log_end: the log end offset here before the fetch was served.
            broker_epoch: the epoch of the follower's registration, if it tells.

        Returns:
            Whether the high watermark advanced.

        Raises:
            NotLeaderOrFollowerError: this broker does not lead the partition, `replica` has no replica of it, or the
                fetch is of an earlier life of the follower than the last one was.
        """
        leading = self.leading
        if leading is None or replica not in leading.followers:
            raise NotLeaderOrFollowerError
        leading.fetched(replica, offset, log_start_offset, log_end, self._clock_ms(), broker_epoch)
        return self.advance_high_watermark()

    def expanded_isr(self, replica: int) -> frozenset[int] | None:
        """Return the ISR with a follower that has caught up, to propose to the controller; None for no change."""
        alive = self._alive()
        if self.leading is None or (alive is not None and replica not in alive):
            return None
        return self.leading.expanded_isr(replica, self.high_watermark)

    def shrunk_isr(self) -> frozenset[int] | None:
        """Return the ISR without followers that fell behind, to propose to the controller; None for no change."""
        if self.leading is None:
            return None
        return self.leading.shrunk_isr(self.log.log_end_offset, self._clock_ms(), self.max_lag_ms)

    def propose_isr(self, isr: frozenset[int]) -> None:
        """Remember that `isr` is proposed to the controller, so that acknowledgements wait for its members too.

        Raises:
            NotLeaderOrFollowerError: this broker does not lead the partition.
        """
        if self.leading is None:
            raise NotLeaderOrFollowerError
        self.leading.propose(isr)

    def confirm_isr(self, leader_epoch: int, isr: frozenset[int], partition_epoch: int) -> bool:
        """Apply the ISR that the controller has confirmed for a proposal of `leader_epoch`.

        Returns:
            Whether the high watermark advanced. An answer to a proposal of an earlier epoch changes nothing.
        """
        leading = self.leading
        if leading is None or leading.epoch != leader_epoch or partition_epoch < leading.partition_epoch:
            return False
        leading.confirm(isr, partition_epoch)
        return self.advance_high_watermark()

    def withdraw_isr(self, leader_epoch: int) -> bool:
        """Return to the confirmed ISR, because the controller has refused a proposal of `leader_epoch`.

        Returns:
            Whether the high watermark advanced.
        """
        leading = self.leading
        if leading is None or leading.epoch != leader_epoch:
            return False
        leading.withdraw()
        return self.advance_high_watermark()

    def advance_high_watermark(self) -> bool:
        """Advance the high watermark to what the in-sync replicas have; return whether it advanced."""
        leading, log = self.leading, self.log
        if leading is None:
            return False
        if not leading.followers:
            # There is only one replica, so every record it has appended is replicated.
            offsets = log.offsets
            offsets.set_high_watermark(offsets.end)
            return True
        before = log.high_watermark
        log.high_watermark = leading.high_watermark(
            before, log.log_end_offset, self.effective_min_insync, self._clock_ms(), self.max_lag_ms, self._alive()
        )
        return log.high_watermark > before

    # -- replication, while another broker leads

    def append_as_follower(
        self, records: memoryview, leader_epoch: int, leader_high_watermark: int, now_ms: int
    ) -> AppendInfo | None:
        """Append batches fetched from the leader in `leader_epoch`, and take over its high watermark.

        Returns:
            The offsets and times appended, or None when there was no whole batch.

        Raises:
            FencedLeaderEpochError: the role has changed since the fetch was sent; nothing is appended.
            KafkaError: see `Log.append_as_follower`.
        """
        role = self.role
        if role is None or isinstance(role, Leader) or role.epoch != leader_epoch:
            raise FencedLeaderEpochError
        log = self.log
        if len(records) and log.log_start_offset == log.log_end_offset:
            first = first_header(records, f"{self.topic}-{self.index}")
            if first is not None and first.base_offset < log.log_end_offset <= first.last_offset:
                # The leader's log begins within this batch, because records were deleted.
                log.truncate_fully_and_start_at(first.base_offset, now_ms=now_ms)
        info = log.append_as_follower(records, now_ms=now_ms, leader_epoch=leader_epoch) if len(records) else None
        log.high_watermark = role.high_watermark(leader_high_watermark, log.log_end_offset)
        return info

    def raise_log_start(self, of_leader: int) -> None:
        """Let the log begin where the leader's does, if that is later: records were deleted there."""
        log = self.log
        start = min(of_leader, log.high_watermark)
        if start > log.log_start_offset:
            log.delete_records(start)

    def truncation(self, epoch: int, end_offset: int) -> Truncation:
        """Return where to truncate, given the end of the last epoch here in the leader's log; see `truncation`."""
        log = self.log
        return truncation(epoch, end_offset, log.log_end_offset, log.high_watermark, log.end_offset_for_epoch)

    # -- reading and appending

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return min(self.log.last_stable_offset, self.log.high_watermark)

    @property
    def must_sync(self) -> bool:
        """Return whether `flush.messages` asks for an fsync before the newest records are acknowledged."""
        log = self.log
        most = log.config.flush_messages
        return most < MAX_LONG and log.log_end_offset - log.recovery_point >= most

    def check_leader_epoch(self, epoch: int, *, only_leader: bool = True) -> None:
        """Fence a client that knows another leader epoch (KIP-320); -1 stands for a client that names none.

        Args:
            only_leader: whether a follower refuses, too.

        Raises:
            FencedLeaderEpochError: the client's epoch is older.
            UnknownLeaderEpochError: the client's epoch is newer.
            NotLeaderOrFollowerError: this broker does not lead the partition.
        """
        if epoch != NO_LEADER_EPOCH and epoch != self.leader_epoch:
            if epoch < self.leader_epoch:
                raise FencedLeaderEpochError
            raise UnknownLeaderEpochError
        if self.role is None or (only_leader and not self.is_leader):
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

        Coordinators of this broker append with their own `origin`; their batches may be transactional, or markers. A
        client's transactional batch is accepted only if it is known to be `in_transaction`.

        Raises:
            NotLeaderOrFollowerError: this broker does not lead the partition, or another one may lead it by now.
            NotEnoughReplicasError: `acks` is all and the ISR is smaller than `min.insync.replicas`.
            KafkaError: the log refuses the batch or cannot be written.
        """
        info = self.log.append_batch(
            records,
            leader_epoch=self._epoch_to_append(acks),
            now_ms=now_ms,
            origin=origin,
            in_transaction=in_transaction,
        )
        self._note_append(info)
        return info

    def append_mirrored(self, mirrored: MirroredRecords, expected_end: int, acks: int, now_ms: int) -> AppendInfo:
        """Append, as the leader, batches that keep the offsets of their source, if the log ends at `expected_end`.

        Raises:
            PolicyViolationError: the topic is no mirror that keeps offsets.
            OffsetOutOfRangeError: the log ends elsewhere.
            KafkaError: as `append`.
        """
        epoch = self._epoch_to_append(acks)
        if not self.log.config.mirror_source:
            raise PolicyViolationError(
                f"Topic {self.topic} is no mirror that keeps offsets: kafkalog.mirror.source is not set"
            )
        info = self.log.append_mirrored(mirrored, expected_end, leader_epoch=epoch, now_ms=now_ms)
        self._note_append(info)
        return info

    def append_legacy(
        self, prepared: PreparedSet | None, acks: int, now_ms: int, *, origin: Origin = Origin.CLIENT
    ) -> AppendInfo:
        """Append, as the leader, the result of `prepare_set`, for records sent or stored in format v0 or v1.

        Raises:
            KafkaError: as `append`.
        """
        epoch = self._epoch_to_append(acks)
        info = self.log.append_legacy(prepared, leader_epoch=epoch, now_ms=now_ms, origin=origin)
        self._note_append(info)
        return info

    def _epoch_to_append(self, acks: int) -> int:
        """Return the leader epoch for an append that may proceed; raise the errors of `append` otherwise."""
        leading = self.leading
        if leading is None or not self._may_append():
            raise NotLeaderOrFollowerError
        if acks == ACKS_ALL and self.min_insync > 1 and self.is_under_min_isr:
            raise NotEnoughReplicasError(
                f"The size of the current ISR {sorted(self.isr)} is insufficient to satisfy the min.isr requirement "
                f"of {self.effective_min_insync} for partition {self.topic}-{self.index}"
            )
        return leading.epoch

    def _note_append(self, info: AppendInfo) -> None:
        self.advance_high_watermark()
        if info.first_offset >= 0 and not info.duplicate:
            self.counters.messages_in += info.last_offset - info.first_offset + 1

    def read(
        self,
        offset: int,
        max_bytes: int,
        isolation: FetchIsolation,
        leader_epoch: int,
        *,
        min_one: bool,
        only_leader: bool = True,
    ) -> ReadResult:
        """Read record batches from `offset` up to the bound of `isolation`; see `check_leader_epoch` for `only_leader`.

        Raises:
            OffsetOutOfRangeError: the offset is below the log start or above the log end.
            KafkaError: see `check_leader_epoch`.
        """
        self.check_leader_epoch(leader_epoch, only_leader=only_leader)
        return self.log.read(offset, max_bytes, max_offset=self.end_for(isolation), min_one=min_one)

    def is_behind(self, offset: int, isolation: FetchIsolation) -> bool:
        """Return whether a reader at `offset` can continue in a later segment."""
        return self.log.is_in_older_segment(offset, self.end_for(isolation))

    def end_for(self, isolation: FetchIsolation) -> int:
        """Return the offset up to which `isolation` lets a reader read."""
        if isolation is FetchIsolation.HIGH_WATERMARK:
            return self.log.high_watermark
        return self.last_stable_offset if isolation is FetchIsolation.LAST_STABLE_OFFSET else self.log.log_end_offset

    def divergence(self, fetched_epoch: int, offset: int) -> tuple[int, int] | None:
        """Return where the log of a follower at `offset` diverges from this one; see `divergence.divergence`."""
        return divergence(fetched_epoch, offset, self.log.log_start_offset, self.log.end_offset_for_epoch)

    def aborted_within(self, offset: int, result: ReadResult) -> list[AbortedTransaction]:
        """Return the aborted transactions to be skipped in a `result` that was read from `offset`."""
        return self.log.aborted_within(offset, result, self.last_stable_offset)

    def latest_offset(self, isolation: FetchIsolation) -> int:
        """Return the latest offset that a consumer with `isolation` may read up to.

        Raises:
            OffsetNotAvailableError: this broker has only just become leader, and its high watermark may be behind the
                one that the previous leader reported (KIP-207).
        """
        self.check_end_known(isolation)
        return self.end_for(isolation)

    def check_end_known(self, isolation: FetchIsolation) -> None:
        """Refuse to say where the readable records end, or that there are none of some time, before that is known.

        Raises:
            OffsetNotAvailableError: see `latest_offset`.
        """
        is_fresh = self.leading is not None and self.log.high_watermark < self.leading.epoch_start
        if is_fresh and isolation is not FetchIsolation.LOG_END:
            raise OffsetNotAvailableError(
                f"The high watermark {self.log.high_watermark} of {self.topic}-{self.index} is not known to be that "
                f"of the previous leader before it reaches the start of epoch {self.leader_epoch}"
            )

    @property
    def low_watermark(self) -> int:
        """The offset before which no live replica has records; unknown (-1) until each has fetched."""
        start, alive = self.log.log_start_offset, self._alive()
        followers = {} if self.leading is None else self.leading.followers
        live = (each for replica, each in followers.items() if alive is None or replica in alive)
        return min([start, *(each.log_start_offset for each in live)])

    def delete_records(self, before: int) -> int:
        """Advance the log start offset to `before` (-1: the high watermark), and return it.

        Raises:
            PolicyViolationError: the topic's `cleanup.policy` is compaction alone.
            OffsetOutOfRangeError: `before` is above the high watermark.
            NotLeaderOrFollowerError: this broker does not lead the partition.
        """
        if not self.is_leader:
            raise NotLeaderOrFollowerError
        if not self.log.config.delete:
            raise PolicyViolationError
        return self.log.delete_records(self.high_watermark if before == -1 else before)
