"""The committed offsets of a group: offsets by partition, commits being stored, and commits of open transactions.

The log's order decides: this module learns of commits and markers as soon as they are appended. An offset is committed
once its record is replicated; an offset of a transaction once the marker is replicated. Until then it is pending, and
OffsetFetch with require_stable gets UNSTABLE_OFFSET_COMMIT (KIP-447). Replication may be reported in any order, and
after the request has timed out. A transaction's offset may have been stored before a plain one and decided after it, so
each offset knows its position in the log: the later one wins, as it would after a compaction.

A transaction may have committed 100,000 offsets of a group. They count all at once when the marker is replicated:
`get` finds them from then on. They are merged with the others some at a time (`merge`).

Offsets expire `offsets.retention.minutes` after their group became empty. Offsets of a group that never had a member,
or of topics that its members no longer consume, expire that long after they were committed (KIP-211).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from itertools import chain
from typing import NamedTuple

from broker.coordinator.group import records
from broker.coordinator.group.membership import Retention
from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.coordinator_records import OffsetCommitValue
from kafkalog.protocol.errors import ErrorCode

TopicPartition = tuple[str, int]

MERGED_AT_ONCE = 2000
"""The most offsets that `GroupOffsets.merge` merges in one call: they take about 2 ms."""


class Committed(NamedTuple):
    """One committed offset. A commit may make many thousands of them in one turn, which is quick with tuples."""

    offset: int
    leader_epoch: int
    """The leader epoch of the last record that was read, -1 if unknown."""
    metadata: str
    timestamp: int
    """The time of the commit, in ms since the epoch."""
    expires: int = records.NO_TIMESTAMP
    """The time of its expiry, in ms since the epoch, if the client named a retention (OffsetCommit 2 to 4), else -1."""
    stored_at: int = -1
    """Offset of its record in the log."""

    def at(self, stored_at: int) -> Committed:
        """Return this offset with `stored_at` set."""
        return Committed(self.offset, self.leader_epoch, self.metadata, self.timestamp, self.expires, stored_at)

    def record(self, group: str, partition: TopicPartition) -> StateRecord:
        """Return the record that stores this offset."""
        value = OffsetCommitValue(
            offset=self.offset,
            leader_epoch=self.leader_epoch,
            metadata=self.metadata,
            commit_timestamp=self.timestamp,
            expire_timestamp=self.expires,
        )
        return StateRecord(records.offset_commit_key(group, *partition), records.offset_commit_value(value))

    @classmethod
    def of(cls, value: OffsetCommitValue, stored_at: int) -> Committed:
        """Return the offset of a record, which was read at `stored_at`."""
        return cls(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            stored_at,
        )


Offsets = dict[TopicPartition, Committed]


class Decided(NamedTuple):
    """The offsets of a transaction whose marker is appended, and not replicated yet."""

    offsets: Offsets
    committed: bool


class GroupOffsets:
    """The committed and pending offsets of one group.

    Attributes:
        committed: the committed offsets, as far as they are merged; `get` returns the committed offset of a partition.
        transactions: by producer id, the offsets that wait for the transaction's marker.
    """

    __slots__ = ("_decided", "_merging", "_pending", "_waiting", "committed", "transactions")

    def __init__(self) -> None:
        self.committed: Offsets = {}
        self.transactions: dict[int, Offsets] = {}
        self._decided: dict[int, Decided] = {}
        """Transactions whose marker is not replicated yet, by the log offset of the marker."""
        self._merging: list[Offsets] = []
        """Offsets of transactions that are committed, and not merged into `committed` yet."""
        self._pending: dict[TopicPartition, dict[int, Committed]] = {}
        """Offsets to commit once a log offset is replicated, by that log offset."""
        self._waiting: dict[int, list[TopicPartition]] = {}
        """The partitions that wait for a log offset. Some may have been removed since."""

    def __len__(self) -> int:
        return len(self.committed)

    @property
    def is_empty(self) -> bool:
        """Return whether there are neither committed offsets nor commits under way."""
        return not (self.committed or self._merging or self._pending or self._decided or self.transactions)

    def get(self, partition: TopicPartition) -> Committed | None:
        """Return the committed offset of a partition."""
        found = self.committed.get(partition)
        for offsets in self._merging:
            offset = offsets.get(partition)
            if offset is not None and (found is None or found.stored_at < offset.stored_at):
                found = offset
        return found

    def latest(self, partition: TopicPartition) -> Committed | None:
        """Return the offset of a partition that was stored last, be it committed or pending."""
        pending = self._pending.get(partition, {}).values()
        found = chain([self.get(partition)], pending, (offsets.get(partition) for offsets in self._in_transactions()))
        return max((offset for offset in found if offset is not None), key=lambda each: each.stored_at, default=None)

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that have committed offsets, in no order."""
        return list(set(self.committed).union(*self._merging) if self._merging else self.committed)

    def copy_of_committed(self) -> GroupOffsets:
        """Return the committed offsets as they are now."""
        copy = GroupOffsets()
        copy.committed = dict(self.committed)
        copy._merging = [dict(offsets) for offsets in self._merging]
        return copy

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Return whether the partition has a pending commit."""
        return partition in self._pending or any(partition in offsets for offsets in self._in_transactions())

    def unstable(self) -> set[TopicPartition]:
        """Return the partitions that have a pending commit."""
        return set(self._pending).union(*self._in_transactions())

    def _in_transactions(self) -> Iterable[Offsets]:
        return chain((decided.offsets for decided in self._decided.values()), self.transactions.values())

    def knows(self, partition: TopicPartition) -> bool:
        """Return whether the partition has a committed offset or a pending commit."""
        return self.get(partition) is not None or self.is_unstable(partition)

    # -- what was appended

    def appended(self, offsets: Mapping[TopicPartition, Committed], last_offset: int) -> None:
        """Take over plain commits that are in the log up to `last_offset`; they hold as soon as it is replicated."""
        if offsets:
            self._waiting.setdefault(last_offset, []).extend(offsets)
        for partition, offset in offsets.items():
            self._pending.setdefault(partition, {})[last_offset] = offset

    def appended_transactional(self, producer_id: int, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Take over offsets that a transaction has appended; they wait for its marker."""
        self.transactions.setdefault(producer_id, {}).update(offsets)

    def decided(self, producer_id: int, committed: bool, marked_at: int) -> None:
        """Take over a transaction's marker: its offsets are committed or dropped once the marker is replicated.

        The offsets are replicated by then, because they precede the marker.
        """
        offsets = self.transactions.pop(producer_id, {})
        if offsets:
            self._decided[marked_at] = Decided(offsets, committed)

    def replicated(self, last_offset: int) -> None:
        """Commit the offsets appended, or decided by a marker, at `last_offset`, which is replicated now."""
        for partition in self._waiting.pop(last_offset, ()):
            pending = self._pending.get(partition)
            if pending is None or last_offset not in pending:
                continue
            offset = pending.pop(last_offset)
            if not pending:
                del self._pending[partition]
            self._commit(partition, offset)
        decided = self._decided.pop(last_offset, None)
        if decided is not None and decided.committed:
            self._merging.append(decided.offsets)
            self.merge()

    def _commit(self, partition: TopicPartition, offset: Committed) -> None:
        present = self.committed.get(partition)
        if present is None or present.stored_at < offset.stored_at:
            self.committed[partition] = offset

    @property
    def is_merging(self) -> bool:
        """Return whether `merge` has something left to do."""
        return bool(self._merging)

    def merge(self) -> None:
        """Merge some of the offsets of committed transactions into `committed`. What `get` returns stays the same."""
        room = MERGED_AT_ONCE
        while self._merging and room:
            offsets = self._merging[0]
            count = min(room, len(offsets))
            room -= count
            for _ in range(count):
                self._commit(*offsets.popitem())
            if not offsets:
                del self._merging[0]

    # -- removal

    def known(self) -> set[TopicPartition]:
        """Return the partitions that have a committed offset or a pending commit."""
        return self.unstable().union(self.committed, *self._merging)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Remove offsets and pending commits, whose tombstones are in the log already."""
        for partition in partitions:
            self.committed.pop(partition, None)
            self._pending.pop(partition, None)
            for offsets in self._merging:
                offsets.pop(partition, None)
            for marked_at, decided in list(self._decided.items()):
                if decided.offsets.pop(partition, None) is not None and not decided.offsets:
                    del self._decided[marked_at]
            for producer_id, offsets in list(self.transactions.items()):
                if offsets.pop(partition, None) is not None and not offsets:
                    del self.transactions[producer_id]
        self._merging = [offsets for offsets in self._merging if offsets]

    def expired(
        self, retention: Retention, retention_ms: int, now_ms: int, among: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return those of some partitions whose offsets have expired (`now_ms`: since the epoch)."""
        found = []
        for partition in among:
            offset = self.get(partition)
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

    A view is live at first. A reader calls `freeze` before it lets others have their turn, and its later reads show
    that moment.
    """

    __slots__ = ("_error", "_frozen", "_offsets", "_require_stable", "_unstable")

    def __init__(
        self, offsets: GroupOffsets | None, *, require_stable: bool = False, error: ErrorCode = ErrorCode.NONE
    ) -> None:
        """Make the view.

        Args:
            offsets: the group's, or None if there is no such group.
            require_stable: hide offsets that a pending commit may change, with UNSTABLE_OFFSET_COMMIT.
            error: the error of every partition, unless it is NONE.
        """
        self._offsets = GroupOffsets() if offsets is None else offsets
        self._require_stable = require_stable
        self._unstable: Container[TopicPartition] = ()
        self._error = error
        self._frozen = False

    def freeze(self) -> None:
        """Copy the committed offsets as they are now; later changes of the group do not show."""
        if not self._frozen:
            self._frozen = True
            if self._require_stable:
                self._unstable = self._offsets.unstable()
            self._offsets = self._offsets.copy_of_committed()

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that have committed offsets, in no order."""
        return self._offsets.partitions()

    def __getitem__(self, partition: TopicPartition) -> tuple[Committed | None, ErrorCode]:
        """Return the committed offset of a partition, or None, and the error if it is not stable."""
        if self._error is not ErrorCode.NONE:
            return None, self._error
        if self._require_stable and (partition in self._unstable or self._offsets.is_unstable(partition)):
            # The copy of a frozen view has no pending commits.
            return None, ErrorCode.UNSTABLE_OFFSET_COMMIT
        return self._offsets.get(partition), ErrorCode.NONE


def placed(offsets: Mapping[TopicPartition, Committed], first: int) -> dict[TopicPartition, Committed]:
    """Return the offsets with the log offsets of their records; the first record is at `first`."""
    return {partition: offset.at(place) for place, (partition, offset) in enumerate(offsets.items(), first)}


def tombstones(group: str, partitions: Iterable[TopicPartition]) -> list[StateRecord]:
    """Return the tombstones of these offsets."""
    return [StateRecord(records.offset_commit_key(group, *partition), None) for partition in partitions]
