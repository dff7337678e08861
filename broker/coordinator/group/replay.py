"""Rebuild the groups of a partition of `__consumer_offsets` from its records.

Later records replace earlier ones with the same key. Offsets of a transaction wait for its marker; offsets of
transactions that are still open are handed over as pending. Records of types without a reader are counted and left
alone: a newer release, or another kind of group that this one does not know, may have written them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from broker.coordinator.group import records
from broker.coordinator.group.offsets import Committed, GroupOffsets, TopicPartition
from broker.coordinator.state_log import StateBatch
from kafkalog.protocol.coordinator_records import GroupMetadataValue, OffsetCommitValue
from kafkalog.records.batch import Record
from kafkalog.records.control import ControlRecordType

Reader = Callable[["Replay", bytes, bytes | None], None]
"""Reads a record of its types into `Replay.others`, given the key and the value (None for a tombstone)."""

_OFFSET_PREFIXES = frozenset(kind.to_bytes(2, "big") for kind in records.OFFSET_COMMIT_TYPES)


class Replay:
    """Collects the groups of one partition. Used on one thread at a time, which may be a worker's.

    Attributes:
        classic: classic groups by id, by their latest records.
        offsets: the committed offsets of each group, by id.
        others: by group id, the objects that readers of other types made.
        unknown: the number of records of each type that has no reader.
    """

    def __init__(self, readers: Mapping[int, Reader] = MappingProxyType({})) -> None:
        """Begin with an empty state.

        Args:
            readers: for types of records that this module does not read, by type.
        """
        self._readers = readers
        self.classic: dict[str, GroupMetadataValue] = {}
        self.offsets: dict[str, GroupOffsets] = {}
        self.others: dict[str, object] = {}
        self.unknown: dict[int, int] = {}
        self._pending: dict[int, dict[tuple[str, TopicPartition], Committed]] = {}
        self.records = 0

    def apply(self, batches: Iterable[StateBatch]) -> None:
        """Apply records, in the order of the log.

        Raises:
            UnreadableRecordError: a record does not match its key.
        """
        latest: dict[bytes, Record] = {}
        for batch in batches:
            if batch.marker is not None or batch.is_transactional:
                # The order of transactional and plain commits matters.
                self._apply_latest(latest)
            if batch.marker is not None:
                self._complete(batch.producer_id, batch.marker is ControlRecordType.COMMIT)
                continue
            self.records += len(batch.records)
            for record in batch.records:
                key = record.key
                if key is None or key[:2] not in _OFFSET_PREFIXES or batch.is_transactional:
                    self._apply(record, batch.producer_id if batch.is_transactional else None)
                elif record.value is None:
                    latest.pop(key, None)
                    self._apply(record, None)
                else:
                    # The same few partitions are committed over and over: only the last record is worth parsing.
                    latest[key] = record
        self._apply_latest(latest)

    def _apply_latest(self, latest: dict[bytes, Record]) -> None:
        for record in latest.values():
            self._apply(record, None)
        latest.clear()

    def _apply(self, record: Record, producer_id: int | None) -> None:
        key = records.parse_key(record.key)
        if key.type in records.OFFSET_COMMIT_TYPES:
            self._apply_offset(key, record, producer_id)
        elif key.type == records.GROUP_METADATA_TYPE:
            if record.value is None:
                self.classic.pop(key.group, None)
            else:
                self.classic[key.group] = records.decode_versioned(GroupMetadataValue, record.value)
        elif key.type in self._readers:
            self._readers[key.type](self, record.key or b"", record.value)
        else:
            self.unknown[key.type] = self.unknown.get(key.type, 0) + 1

    def _apply_offset(self, key: records.RecordKey, record: Record, producer_id: int | None) -> None:
        partition = (key.topic, key.partition)
        value = None
        if record.value is not None:
            stored = records.decode_versioned(OffsetCommitValue, record.value)
            value = Committed.of(stored, record.offset)
        if producer_id is not None:
            pending = self._pending.setdefault(producer_id, {})
            if value is None:
                pending.pop((key.group, partition), None)
            else:
                pending[key.group, partition] = value
        elif value is not None:
            self._of(key.group).committed[partition] = value
        else:
            if key.group in self.offsets:
                self.offsets[key.group].committed.pop(partition, None)
            for pending in self._pending.values():
                # A transaction that commits later does not bring back offsets that were removed before.
                pending.pop((key.group, partition), None)

    def _complete(self, producer_id: int, committed: bool) -> None:
        for (group, partition), offset in self._pending.pop(producer_id, {}).items():
            if committed:
                offsets = self._of(group).committed
                present = offsets.get(partition)
                if present is None or present.stored_at < offset.stored_at:
                    offsets[partition] = offset

    def finish(self) -> set[str]:
        """End the replay at the log's end, and return the ids of the groups; open transactions stay pending.

        There may be hundreds of thousands of offsets, so call it on a worker's thread.
        """
        for producer_id, pending in self._pending.items():
            for (group, partition), offset in pending.items():
                self._of(group).transactions.setdefault(producer_id, {})[partition] = offset
        self._pending = {}
        self.offsets = {group: offsets for group, offsets in self.offsets.items() if not offsets.is_empty}
        return self.group_ids()

    def group_ids(self) -> set[str]:
        """Return the ids of all groups that have a record or an offset."""
        return {*self.classic, *self.offsets, *self.others}

    def _of(self, group: str) -> GroupOffsets:
        offsets = self.offsets.get(group)
        if offsets is None:
            offsets = self.offsets[group] = GroupOffsets()
        return offsets
