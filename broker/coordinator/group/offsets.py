"""What a group has committed: offsets by partition, those being stored, and those that wait for a transaction.

An offset counts once its record is replicated; until then it is pending, and who asks for stable offsets is told so
(KIP-447). Offsets of a transaction are pending, too, until its marker is written to the same partition of the log. As a
transaction's offset may have been stored before a plain one and decided after it, each knows its place in the log: the
later one holds, as it would after a compaction.

Offsets expire ``offsets.retention.minutes`` after their group became empty; those of a group that never had a member,
or of topics that its members no longer read, after they were committed (KIP-211).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from broker.coordinator.group import records
from broker.coordinator.group.membership import Retention
from broker.coordinator.state_log import StateRecord

TopicPartition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed offset.

    Attributes:
        leader_epoch: of the last record read, -1 where it is not known.
        timestamp: when it was committed, ms since the epoch.
        expires: when it expires, ms since the epoch, where the client named a retention (OffsetCommit 2 to 4), else -1.
        stored_at: offset of a record of its batch in the log.
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
        self._pending: dict[TopicPartition, int] = {}
        """How many commits of a partition are being stored."""

    def __len__(self) -> int:
        return len(self.committed)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be kept, nor about to be."""
        return not (self.committed or self._pending or self.transactions)

    def is_unstable(self, partition: TopicPartition) -> bool:
        """Whether a commit of the partition is under way."""
        return partition in self._pending or any(partition in offsets for offsets in self.transactions.values())

    # -- plain commits

    def begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Commits of these are being stored; `stored` or `failed` ends that."""
        for partition in partitions:
            self._pending[partition] = self._pending.get(partition, 0) + 1

    def stored(self, offsets: Mapping[TopicPartition, Committed], stored_at: int) -> None:
        """They hold from now on."""
        for partition, offset in offsets.items():
            if self._end(partition):
                self._put(partition, offset.at(stored_at))

    def failed(self, partitions: Iterable[TopicPartition]) -> None:
        """They could not be stored."""
        for partition in partitions:
            self._end(partition)

    def _end(self, partition: TopicPartition) -> bool:
        """Whether it was still awaited: not when its topic was deleted meanwhile."""
        count = self._pending.get(partition, 0)
        if count > 1:
            self._pending[partition] = count - 1
        else:
            self._pending.pop(partition, None)
        return count > 0

    def _put(self, partition: TopicPartition, offset: Committed) -> None:
        present = self.committed.get(partition)
        if present is None or present.stored_at <= offset.stored_at:
            self.committed[partition] = offset

    # -- commits of transactions

    def begin_transactional(self, producer_id: int, offsets: Mapping[TopicPartition, Committed]) -> None:
        """Offsets of a transaction are being stored: they are unstable from now on."""
        self.transactions.setdefault(producer_id, {}).update(offsets)

    def stored_transactional(
        self, producer_id: int, offsets: Mapping[TopicPartition, Committed], stored_at: int
    ) -> None:
        """They are in the log, and wait for the marker; unless it came, or they were committed anew meanwhile."""
        pending = self.transactions.get(producer_id, {})
        for partition, offset in offsets.items():
            if pending.get(partition) is offset:
                pending[partition] = offset.at(stored_at)

    def failed_transactional(self, producer_id: int, offsets: Mapping[TopicPartition, Committed]) -> None:
        """They could not be stored."""
        pending = self.transactions.get(producer_id)
        if pending is None:
            return
        for partition, offset in offsets.items():
            if pending.get(partition) is offset:
                del pending[partition]
        if not pending:
            del self.transactions[producer_id]

    def complete(self, producer_id: int, committed: bool) -> None:
        """The transaction's marker was written: its offsets hold, or are forgotten."""
        for partition, offset in self.transactions.pop(producer_id, {}).items():
            if committed and offset.stored_at >= 0:
                self._put(partition, offset)

    # -- removal

    def remove(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Forget offsets, also those that are being stored; those of them that are in the log, or may be."""
        removed = []
        for partition in partitions:
            stored = self._pending.pop(partition, None) is not None
            for producer_id, offsets in list(self.transactions.items()):
                stored = offsets.pop(partition, None) is not None or stored
                if not offsets:
                    del self.transactions[producer_id]
            if self.committed.pop(partition, None) is not None or stored:
                removed.append(partition)
        return removed

    def remove_all(self) -> list[TopicPartition]:
        """Forget everything; what of it is in the log, or may be."""
        partitions = {*self.committed, *self._pending}
        partitions.update(partition for offsets in self.transactions.values() for partition in offsets)
        return self.remove(sorted(partitions))

    def of_topic(self, topic: str) -> list[TopicPartition]:
        """The topic's partitions of which there is anything."""
        found = {partition for partition in self.committed if partition[0] == topic}
        found.update(partition for partition in self._pending if partition[0] == topic)
        for offsets in self.transactions.values():
            found.update(partition for partition in offsets if partition[0] == topic)
        return sorted(found)

    def expired(self, retention: Retention, retention_ms: int, now_ms: int) -> list[TopicPartition]:
        """Partitions whose offsets are to be forgotten now (``now_ms``: since the epoch)."""
        found = []
        for partition, offset in self.committed.items():
            if partition[0] in retention.kept or self.is_unstable(partition):
                continue
            if offset.expires != records.NO_TIMESTAMP:
                due = offset.expires
            else:
                due = retention_ms + (offset.timestamp if retention.since is None else retention.since)
            if due <= now_ms:
                found.append(partition)
        return found


def tombstones(group: str, partitions: Iterable[TopicPartition]) -> list[StateRecord]:
    """What has to be written for the log to forget these offsets."""
    return [StateRecord(records.offset_commit_key(group, *partition), None) for partition in partitions]
