"""What a group has committed: offsets by partition, those being stored, and those that wait for a transaction.

What is told here is what the log says, in its order: commits and markers as soon as they are appended. An offset holds
once its record is replicated, one of a transaction once the marker is; until then it is pending, and who asks for
stable offsets is told so (KIP-447). Replication may be told in any order, and after whoever committed has stopped to
wait. As a transaction's offset may have been stored before a plain one and decided after it, each knows its place in
the log: the later one holds, as it would after a compaction.

Offsets expire ``offsets.retention.minutes`` after their group became empty; those of a group that never had a member,
or of topics that its members no longer read, after they were committed (KIP-211).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

from broker.coordinator.group import records
from broker.coordinator.group.membership import Retention
from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.errors import ErrorCode

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed offset.

    Attributes:
        leader_epoch: of the last record read, -1 where it is not known.
        timestamp: when it was committed, ms since the epoch.
        expires: when it expires, ms since the epoch, where the client named a retention (OffsetCommit 2 to 4), else -1.
        stored_at: offset of its record in the log.
    """

    offset: int
    leader_epoch: int
    metadata: str
    timestamp: int
    expires: int = records.NO_TIMESTAMP
    stored_at: int = -1

    def at(self, stored_at: int) -> Committed:
        """The same, stored there."""
        return Committed(self.offset, self.leader_epoch, self.metadata, self.timestamp, self.expires, stored_at)

    def record(self, group: str, partition: TopicPartition) -> StateRecord:
        """What is stored of it."""
        value = records.OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.timestamp,
            expire_timestamp=self.expires,
        )
        return StateRecord(records.offset_commit_key(group, *partition), records.offset_commit_value(value))

    @classmethod
    def of(cls, value: records.OffsetCommitValue, stored_at: int) -> Committed:
        """What a record says that was read there."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            stored_at,
        )


Offsets = dict[TopicPartition, Committed]


class GroupOffsets:
    """See the module.

    Attributes:
        committed: what holds.
        transactions: by producer id what waits for its transaction.
    """

    __slots__ = ("_pending", "committed", "transactions")

    def __init__(self) -> None:
        self.committed: Offsets = {}
        self.transactions: dict[int, Offsets] = {}
        self._pending: dict[TopicPartition, dict[int, Committed | None]] = {}
        """What will hold once the log is replicated up to an offset, by that offset; None: what holds now."""

    def __len__(self) -> int:
        return len(self.committed)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be kept, nor about to be."""
        return not (self.committed or self._pending or self.transactions)

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether a commit of the partition is under way."""
        return partition in self._pending or any(partition in offsets for offsets in self.transactions.values())

    def unstable(self) -> set[TopicPartition]:
        """Return the partitions of which a commit is under way."""
        return set(self._pending).union(*self.transactions.values())

    def knows(self, partition: TopicPartition) -> bool:
        """Whether there is anything of the partition, also a commit that is under way."""
        return partition in self.committed or self.is_unstable(partition)

    # -- what was appended

    def appended(self, offsets: Mapping[TopicPartition, Committed], last_offset: int) -> None:
        """Plain commits are in the log, up to ``last_offset``: they hold as soon as it is replicated."""
        for partition, offset in offsets.items():
            self._pending.setdefault(partition, {})[last_offset] = offset

    def appended_transactional(self, producer_id: int, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Commits of a transaction are in the log: they wait for its marker."""
        self.transactions.setdefault(producer_id, {}).update(offsets)

    def decided(self, producer_id: int, committed: bool, marked_at: int) -> None:
        """The transaction's marker is in the log: its offsets hold, or are forgotten, as soon as it is replicated.

        It is so when they are: they precede it.
        """
        for partition, offset in self.transactions.pop(producer_id, {}).items():
            self._pending.setdefault(partition, {})[marked_at] = offset if committed else None

    def replicated(self, last_offset: int) -> None:
        """What was appended, or decided, at ``last_offset`` is replicated."""
        for partition, pending in list(self._pending.items()):
            if last_offset not in pending:
                continue
            offset = pending.pop(last_offset)
            if not pending:
                del self._pending[partition]
            present = self.committed.get(partition)
            if offset is not None and (present is None or present.stored_at < offset.stored_at):
                self.committed[partition] = offset

    # -- removal

    def known(self) -> set[TopicPartition]:
        """The partitions of which there is anything, also such as is under way."""
        return self.unstable().union(self.committed)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget offsets, also those that are under way: their tombstones are in the log."""
        for partition in partitions:
            self.committed.pop(partition, None)
            self._pending.pop(partition, None)
            for producer_id, offsets in list(self.transactions.items()):
                if offsets.pop(partition, None) is not None and not offsets:
                    del self.transactions[producer_id]

    def expired(
        self, retention: Retention, retention_ms: int, now_ms: int, among: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Those of some partitions whose offsets are to be forgotten now (``now_ms``: since the epoch)."""
        found = []
        for partition in among:
            offset = self.committed.get(partition)
            if offset is None or partition[0] in retention.kept or self.is_unstable(partition):
                continue
            if offset.expires != records.NO_TIMESTAMP:
                due = offset.expires
            else:
                due = retention_ms + (offset.timestamp if retention.since is None else retention.since)
            if due <= now_ms:
                found.append(partition)
        return found


class OffsetsView:
    """A group's offsets as they are at one moment.

    A view is live at first. A reader that is about to let others have their turn calls `freeze`, and what it reads
    afterwards is as it was then.
    """

    __slots__ = ("_committed", "_error", "_frozen", "_offsets", "_unstable")

    def __init__(
        self, offsets: GroupOffsets | None, *, require_stable: bool = False, error: ErrorCode = ErrorCode.NONE
    ) -> None:
        """Make the view.

        Args:
            offsets: the group's, or None where there is no such group.
            require_stable: hide offsets that a commit under way may change, with UNSTABLE_OFFSET_COMMIT.
            error: every partition has it, where it is not NONE.
        """
        self._offsets = offsets if require_stable else None
        self._committed: Mapping[TopicPartition, Committed] = {} if offsets is None else offsets.committed
        self._unstable: Container[TopicPartition] = ()
        self._error = error
        self._frozen = False

    def freeze(self) -> None:
        """Keep what the group has committed now, whatever becomes of the group."""
        if not self._frozen:
            self._frozen = True
            self._committed = dict(self._committed)
            if self._offsets is not None:
                self._unstable = self._offsets.unstable()
                self._offsets = None

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that the group has committed, in no order."""
        return list(self._committed)

    def __getitem__(self, partition: TopicPartition) -> tuple[Committed | None, ErrorCode]:
        """Return the offset of a partition, or None, and the error where the offset cannot be told."""
        if self._error is not ErrorCode.NONE:
            return None, self._error
        is_unstable = partition in self._unstable if self._offsets is None else self._offsets.is_unstable(partition)
        if is_unstable:
            return None, ErrorCode.UNSTABLE_OFFSET_COMMIT
        return self._committed.get(partition), ErrorCode.NONE


def placed(offsets: Mapping[TopicPartition, Committed], first: int) -> dict[TopicPartition, Committed]:
    """The same, each at the place of its record, of which the first is at an offset of the log."""
    return {partition: offset.at(place) for place, (partition, offset) in enumerate(offsets.items(), first)}


def tombstones(group: str, partitions: Iterable[TopicPartition]) -> list[StateRecord]:
    """What has to be written for the log to forget these offsets."""
    return [StateRecord(records.offset_commit_key(group, *partition), None) for partition in partitions]
