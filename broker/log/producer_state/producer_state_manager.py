"""The idempotent and transactional producers of a partition.

For each producer id the state has its epoch, its last five batches (sequence range and offsets), and the first offset
of its open transaction. This decides what happens to a batch that arrives (KIP-98):

* An epoch older than the last one: INVALID_PRODUCER_EPOCH, because the producer was fenced.
* The sequence range of one of the last five batches: a duplicate, answered with the offsets of the first append.
* A new epoch: the batch must begin at sequence 0, unless nothing is known of the producer.
* The same epoch: the batch must begin right after the last sequence (which wraps from 2^31 - 1 to 0), else
  OUT_OF_ORDER_SEQUENCE_NUMBER. An unknown producer may begin anywhere, because its state may have expired, but not
  behind a batch that it has to send again because its transaction could not be verified (KIP-890).

Followers do not check sequences: they append what the leader appended. The state is a function of the log; snapshots
(`producer_snapshots`) only shorten the time to rebuild it. A snapshot has only the last batch of each producer, as in
Apache Kafka; `recovery.producer_recall` looks up those before it.

The first unstable offset bounds the last stable offset. It is the first offset of the oldest transaction that is open,
or that is decided but whose marker is not yet below the high watermark.
"""

from __future__ import annotations

import logging
import os
from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from itertools import chain, islice

from broker.log.files.file_ops import OS, FileOps
from broker.log.producer_state.producer_entry import (
    NO_EPOCH,
    NO_SEQUENCE,
    BatchMetadata,
    ProducerEntry,
    UnverifiedBatch,
)
from broker.log.producer_state.producer_snapshots import read, write
from kafkalog.protocol.errors import (
    InvalidProducerEpochError,
    InvalidTxnStateError,
    OutOfOrderSequenceNumberError,
    TransactionCoordinatorFencedError,
)
from kafkalog.storage import names
from kafkalog.storage.snapshots import CorruptSnapshotError, SnapshotEntry
from kafkalog.storage.transaction_entries import AbortedTransaction

logger = logging.getLogger(__name__)

MOST_UNVERIFIED = 10_000
"""The most producers that are remembered because their transaction could not be verified."""


class ProducerStateManager:
    """Track the producers of one partition, and its snapshot files.

    Args:
        directory: the partition's directory.
        expiration_ms: `producer.id.expiration.ms`; a producer that is silent for so long is forgotten.
        snapshots: offsets of the snapshot files that exist.

    Attributes:
        producers: the state of each producer id.
        ongoing: the producer id of each open transaction, by the transaction's first offset, in ascending order.
        end_offset: the offset up to which the state covers the log.
    """

    __slots__ = (
        "_directory", "_label", "_ops", "_snapshot_offset", "_snapshots", "_unreplicated", "_unsynced", "_unverified",
        "end_offset", "expiration_ms", "ongoing", "producers",
    )  # fmt: skip

    def __init__(self, directory: str, expiration_ms: int, snapshots: Iterable[int] = (), ops: FileOps = OS) -> None:
        self._directory = directory
        self._label = os.path.basename(directory)
        self._ops = ops
        self.expiration_ms = expiration_ms
        self.producers: dict[int, ProducerEntry] = {}
        # Unlike a dict's, its first key is found at once, also after many that were removed.
        self.ongoing: OrderedDict[int, int] = OrderedDict()
        self._unreplicated: dict[int, int] = {}
        """Decided transactions whose marker is not yet below the high watermark: first offset to the marker's
        offset."""
        self._unverified: dict[int, UnverifiedBatch] = {}
        """Batches that producers have to send again, by producer id."""
        self._snapshots = sorted(snapshots)
        self._unsynced: list[str] = []
        self.end_offset = 0
        self._snapshot_offset = 0

    # -- checks and updates ----------------------------------------------------------------------------------

    def check(
        self,
        producer_id: int,
        epoch: int,
        first_sequence: int,
        last_sequence: int,
        *,
        transactional: bool = False,
    ) -> BatchMetadata | None:
        """Check a client's batch before it is appended.

        Returns:
            The earlier append if this batch is a duplicate; None if it may be appended.

        Raises:
            InvalidProducerEpochError: the producer was fenced by a newer epoch.
            OutOfOrderSequenceNumberError: the sequence does not follow, or an earlier one has to be sent again.
            InvalidTxnStateError: a non-transactional batch within the producer's transaction.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            self._check_unverified(producer_id, epoch, first_sequence)
            return None
        if entry.epoch == epoch and entry.next_sequence == first_sequence:
            self._check_transaction(entry, producer_id, transactional)
            return None
        duplicate = entry.duplicate_of(epoch, first_sequence, last_sequence)
        if duplicate is not None:
            return duplicate
        self._check_epoch(entry, producer_id, epoch)
        if entry.epoch == NO_EPOCH:
            return None
        if epoch != entry.epoch:
            if first_sequence != 0:
                raise OutOfOrderSequenceNumberError(
                    f"Invalid sequence number for new epoch of producer {producer_id} in partition {self._label}: "
                    f"{epoch} (request epoch), {first_sequence} (seq. number), {entry.epoch} (current producer epoch)"
                )
        else:
            last = entry.batches[-1].last_sequence if entry.batches else NO_SEQUENCE
            raise OutOfOrderSequenceNumberError(
                f"Out of order sequence number for producer {producer_id} in partition {self._label}: "
                f"{first_sequence} (incoming seq. number), {last} (current end sequence number)"
            )
        self._check_transaction(entry, producer_id, transactional)
        return None

    def _check_unverified(self, producer_id: int, epoch: int, first_sequence: int) -> None:
        batch = self._unverified.get(producer_id)
        if batch is not None and batch.epoch == epoch and first_sequence > batch.first_sequence:
            raise OutOfOrderSequenceNumberError(
                f"Out of order sequence number for producer {producer_id} in partition {self._label}: "
                f"{first_sequence} (incoming seq. number), {batch.first_sequence} (earliest seen sequence)"
            )

    def note_unverified(self, producer_id: int, epoch: int, first_sequence: int, now_ms: int) -> None:
        """Remember a batch that its producer has to send again, because its transaction could not be verified.

        The producer may have sent more batches, and the transaction of those may be verified. If one of them were
        appended first, the producer could send this batch in vain until its delivery times out.
        """
        before = self._unverified.get(producer_id)
        if before is not None:
            is_later = epoch == before.epoch and first_sequence >= before.first_sequence
            if is_later or epoch < before.epoch:
                return
        if before is None and len(self._unverified) >= MOST_UNVERIFIED:
            del self._unverified[next(iter(self._unverified))]
        self._unverified[producer_id] = UnverifiedBatch(epoch, first_sequence, now_ms)

    def check_fenced(self, producer_id: int, epoch: int) -> None:
        """Check a batch that a coordinator appends for a producer; its sequence numbers are not checked.

        Raises:
            InvalidProducerEpochError: the producer was fenced by a newer epoch.
        """
        entry = self.producers.get(producer_id)
        if entry is not None:
            self._check_epoch(entry, producer_id, epoch)

    def _check_epoch(self, entry: ProducerEntry, producer_id: int, epoch: int) -> None:
        if epoch < entry.epoch:
            raise InvalidProducerEpochError(
                f"Epoch of producer {producer_id} in {self._label} is {epoch}, which is smaller than the last seen "
                f"epoch {entry.epoch}"
            )

    def _check_transaction(self, entry: ProducerEntry, producer_id: int, transactional: bool) -> None:
        if entry.transaction_first_offset >= 0 and not transactional:
            raise InvalidTxnStateError(f"Expected transactional write from producer {producer_id} in {self._label}")

    def update(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        first_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool = False,
    ) -> None:
        """Take over a data batch that was appended."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry()
        entry.add_batch(epoch, last_sequence, last_offset, last_offset - first_offset, timestamp)
        if transactional and entry.transaction_first_offset < 0:
            entry.transaction_first_offset = first_offset
            self.ongoing[first_offset] = producer_id
        if self._unverified:
            self._unverified.pop(producer_id, None)

    def note_epoch(self, producer_id: int, epoch: int, timestamp: int) -> None:
        """Take over a producer's epoch when nothing else of the producer is left in the log."""
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry()
        entry.set_epoch(epoch)
        entry.last_timestamp = timestamp

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Check a transaction marker from a coordinator before it is appended.

        Raises:
            InvalidProducerEpochError: the producer was fenced by a newer epoch.
            TransactionCoordinatorFencedError: a newer coordinator has already written a marker.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        self._check_epoch(entry, producer_id, epoch)
        if coordinator_epoch < entry.coordinator_epoch:
            raise TransactionCoordinatorFencedError(
                f"Invalid coordinator epoch for producerId {producer_id} in partition {self._label}: "
                f"{coordinator_epoch} (zombie), {entry.coordinator_epoch} (current)"
            )

    def complete(
        self,
        producer_id: int,
        epoch: int,
        coordinator_epoch: int,
        offset: int,
        timestamp: int,
        *,
        aborted: bool,
    ) -> AbortedTransaction | None:
        """Take over a transaction marker that was appended at `offset`.

        Return the row for the transaction index if the marker aborts an open transaction, else None.
        """
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry()
        first = entry.transaction_first_offset
        entry.set_epoch(epoch)
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp = timestamp
        entry.transaction_first_offset = -1
        if self._unverified:
            self._unverified.pop(producer_id, None)
        if first < 0:
            return None
        self.ongoing.pop(first, None)
        self._unreplicated[first] = offset
        if not aborted:
            return None
        return AbortedTransaction(producer_id, first, offset, next(iter(self.ongoing), offset + 1))

    # -- offsets that depend on transactions -----------------------------------------------------------------

    @property
    def first_unstable_offset(self) -> int | None:
        """First offset of the oldest transaction that is open, or whose marker is not below the high watermark."""
        if not self.ongoing and not self._unreplicated:
            return None
        # Each fetch asks, and a partition may have 100,000s of open transactions.
        return min(chain(islice(self.ongoing, 1), self._unreplicated))

    def on_high_watermark(self, offset: int) -> None:
        """Forget decided transactions whose marker lies below the high watermark `offset`: they are stable."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= offset}

    def on_log_start_offset(self, offset: int) -> None:
        """Remember that the records before `offset` are gone."""
        self.on_high_watermark(offset)
        self.end_offset = max(self.end_offset, offset)

    def remove_expired(self, now_ms: int, among: Iterable[int] | None = None) -> int:
        """Forget producers that were silent for the expiration time and have no open transaction; return how many.

        Args:
            now_ms: milliseconds since the epoch.
            among: the producer ids to look at; None for all.
        """
        known = self.producers
        gone = [
            producer_id
            for producer_id in (known if among is None else among)
            if (entry := known.get(producer_id)) is not None
            and entry.transaction_first_offset < 0
            and now_ms - entry.last_timestamp >= self.expiration_ms
        ]
        for producer_id in gone:
            del self.producers[producer_id]
        if self._unverified:
            batches = self._unverified.items()
            self._unverified = {each: batch for each, batch in batches if now_ms - batch.seen_ms < self.expiration_ms}
        return len(gone)

    # -- snapshots -------------------------------------------------------------------------------------------

    @property
    def snapshot_offsets(self) -> Sequence[int]:
        """Offsets of the snapshot files, in ascending order."""
        return self._snapshots

    def take_snapshot(self, *, sync: bool) -> None:
        """Write `<end offset>.snapshot`, unless a snapshot of that offset or a later one was written before."""
        offset = self.end_offset
        if offset <= self._snapshot_offset:
            return
        path = self._path(offset)
        write(path, self.rows(), sync=sync, ops=self._ops)
        if not sync:
            self._unsynced.append(path)
        self._snapshot_offset = offset
        if offset not in self._snapshots:
            insort(self._snapshots, offset)

    def sync_snapshots(self) -> None:
        """Force the snapshots that were written without `sync` to the device. May run on a worker's thread."""
        while self._unsynced:
            path = self._unsynced.pop(0)
            try:
                fd = self._ops.open(path, os.O_RDWR)
            except FileNotFoundError:
                continue
            except OSError:
                self._unsynced.insert(0, path)
                raise
            try:
                self._ops.fsync(fd)
            finally:
                os.close(fd)

    def rows(self) -> list[SnapshotEntry]:
        """Return the state as rows of a snapshot."""
        rows = []
        for producer_id, entry in self.producers.items():
            last = entry.batches[-1] if entry.batches else BatchMetadata(NO_SEQUENCE, -1, 0, -1)
            rows.append(
                SnapshotEntry(
                    producer_id, entry.epoch, last.last_sequence, last.last_offset, last.offset_delta,
                    entry.last_timestamp, entry.coordinator_epoch, entry.transaction_first_offset,
                )
            )  # fmt: skip
        return rows

    def reload(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> None:
        """Load the newest valid snapshot at or before `log_end_offset`.

        Afterwards the state covers the log up to `end_offset`, and the caller replays the batches from there.
        Snapshots past the end of the log, at or before its start, and damaged ones are removed.
        """
        for offset in [o for o in self._snapshots if o > log_end_offset or o <= log_start_offset]:
            self.remove_snapshot(offset)
        self._clear()
        while self._snapshots:
            offset = self._snapshots[-1]
            try:
                rows = read(self._path(offset))
            except (CorruptSnapshotError, FileNotFoundError) as error:
                logger.warning(
                    "Removing the producer snapshot %s: %s. Rebuilding the producers from an older one and the log",
                    self._path(offset), error,
                )  # fmt: skip
                self.remove_snapshot(offset)
                continue
            for row in rows:
                self._load(row, now_ms)
            self.ongoing = OrderedDict(sorted(self.ongoing.items()))
            self._snapshot_offset = self.end_offset = offset
            return
        self._snapshot_offset = self.end_offset = log_start_offset

    def as_of(self, log_start_offset: int, log_end_offset: int, now_ms: int) -> ProducerStateManager:
        """Return a new state as `reload` would make this one. Only damaged snapshots are removed.

        Afterwards the caller replays the batches from there, and `take_over` makes it the state of the log.
        """
        usable = [offset for offset in self._snapshots if log_start_offset < offset <= log_end_offset]
        state = ProducerStateManager(self._directory, self.expiration_ms, usable, self._ops)
        state.reload(log_start_offset, log_end_offset, now_ms)
        damaged = set(usable).difference(state._snapshots)
        self._snapshots = [offset for offset in self._snapshots if offset not in damaged]
        return state

    def take_over(self, state: ProducerStateManager) -> None:
        """Make `state`, which `as_of` returned, the state of the log; remove the snapshots that it does not know."""
        for offset in sorted(set(self._snapshots).difference(state._snapshots)):
            self.remove_snapshot(offset)
        self.producers, self.ongoing, self._unreplicated = state.producers, state.ongoing, state._unreplicated
        self.end_offset, self._snapshot_offset = state.end_offset, state._snapshot_offset

    def start_at(self, offset: int) -> None:
        """Forget everything and remove the snapshots, because the log begins anew at `offset`."""
        self._clear()
        for snapshot in list(self._snapshots):
            self.remove_snapshot(snapshot)
        self._snapshot_offset = 0
        self.end_offset = offset

    def remove_snapshot(self, offset: int) -> None:
        """Remove a snapshot file."""
        self._snapshots.remove(offset)
        self._ops.unlink(self._path(offset))

    def detach_snapshot(self, offset: int) -> str | None:
        """Rename a snapshot file for later removal; return its new path, or None if there was none."""
        if offset not in self._snapshots:
            return None
        self._snapshots.remove(offset)
        path = self._path(offset)
        try:
            self._ops.rename(path, path + names.DELETED)
        except FileNotFoundError:
            return None
        return path + names.DELETED

    def remove_stray_snapshots(self, base_offsets: Iterable[int]) -> None:
        """Remove snapshots at offsets where no segment begins, except the newest one past the last base offset."""
        bases = set(base_offsets)
        last_base = max(bases, default=-1)
        strays = [offset for offset in self._snapshots if offset not in bases]
        for offset in strays:
            if offset != strays[-1] or offset < last_base:
                self.remove_snapshot(offset)

    def relocate(self, directory: str) -> None:
        """Use the copies of all snapshots in `directory` from now on.

        A copy is on the device if its original is.
        """
        self._directory = directory
        self._unsynced = [os.path.join(directory, os.path.basename(path)) for path in self._unsynced]

    def _load(self, row: SnapshotEntry, now_ms: int) -> None:
        if row.transaction_first_offset < 0 and now_ms - row.timestamp >= self.expiration_ms:
            return
        entry = ProducerEntry()
        if row.last_offset >= 0:
            entry.add_batch(row.epoch, row.last_sequence, row.last_offset, row.offset_delta, row.timestamp)
        entry.set_epoch(row.epoch)
        entry.last_timestamp = row.timestamp
        entry.coordinator_epoch = row.coordinator_epoch
        entry.transaction_first_offset = row.transaction_first_offset
        self.producers[row.producer_id] = entry
        if row.transaction_first_offset >= 0:
            self.ongoing[row.transaction_first_offset] = row.producer_id

    def _clear(self) -> None:
        self.producers.clear()
        self.ongoing.clear()
        self._unreplicated.clear()
        self._unverified.clear()

    def _path(self, offset: int) -> str:
        return os.path.join(self._directory, names.segment_name(offset, names.SNAPSHOT))
