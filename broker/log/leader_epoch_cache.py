"""The start offset of each leader epoch: a cache over the file `leader-epoch-checkpoint`.

An entry `(epoch, start offset)` says that the leader of that epoch wrote the records from the start offset up to the
start offset of the next entry. Followers and consumers ask where an epoch ends, to find the offset up to which two logs
agree (KIP-101, KIP-320). Epochs and start offsets both grow; assigning an entry removes the entries that contradict it.
"""

from __future__ import annotations

import logging
from bisect import bisect_left, bisect_right

from broker.log.directories.checkpoints import read_epochs, write_epochs
from broker.log.files.file_ops import OS, FileOps
from kafkalog.storage.checkpoints import CorruptCheckpointError

logger = logging.getLogger(__name__)

UNDEFINED_EPOCH = -1
UNDEFINED_OFFSET = -1


class LeaderEpochCache:
    """Hold the entries of one partition and write them to its checkpoint file.

    Args:
        path: the `leader-epoch-checkpoint` file, which is read now if it exists. A damaged file counts as empty:
            recovery assigns the epochs again from the batches that it scans.

    Attributes:
        latest_epoch: the latest epoch, or -1.
        dirty: whether the file, or the device, lacks entries. It must have them before it has a record of theirs.
    """

    __slots__ = ("_epochs", "_ops", "_path", "_starts", "_stored", "dirty", "latest_epoch")

    def __init__(self, path: str, ops: FileOps = OS) -> None:
        self._path = path
        self._ops = ops
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH
        self.dirty = False
        try:
            rows = read_epochs(path)
        except CorruptCheckpointError as error:
            logger.warning("Ignoring a leader-epoch checkpoint: %s. Recovery writes a new one", error)
            rows = []
        for epoch, start in rows:
            self._assign(epoch, start)
        self._stored = self.entries()

    def entries(self) -> list[tuple[int, int]]:
        """Return every `(epoch, start offset)`, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that `epoch` began at `start_offset`; do nothing for the current epoch.

        Returns:
            Whether a power failure may still undo that the file was replaced. The file of before lacks entries, which
            recovery finds again in the batches behind the recovery point: the directory has to be forced to the device
            before the recovery point moves up. Thousands of partitions get a new epoch when a broker fails, and each
            fsync may take ten milliseconds.

        Raises:
            OSError: the file could not be written.
        """
        if not (self._assign(epoch, start_offset) or self.dirty):
            return False
        lacks_only = set(self._stored) <= set(self.entries())
        self.flush(sync_dir=not lacks_only)
        return lacks_only

    def announce(self, epoch: int, start_offset: int) -> None:
        """Note that `epoch`, which has no records yet, begins at `start_offset`.

        Nothing is forced to the device, because that would take many seconds for thousands of partitions. A crash only
        loses what the next leader announces again. The first append forces the entry to the device. Only a file without
        entries is written now.
        """
        if not self._assign(epoch, start_offset):
            return
        self.dirty = True
        if not self._stored:
            entries = self.entries()
            write_epochs(self._path, entries, self._ops, durably=False)
            self._stored = entries

    def _assign(self, epoch: int, start: int) -> bool:
        if epoch < 0 or start < 0:
            raise ValueError(f"a leader epoch entry of ({epoch}, {start})")
        if self._epochs and epoch == self._epochs[-1] and start >= self._starts[-1]:
            return False
        keep = min(bisect_left(self._epochs, epoch), bisect_left(self._starts, start))
        self._epochs[keep:] = [epoch]
        self._starts[keep:] = [start]
        self.latest_epoch = epoch
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch at or below `epoch`, and the offset at which it ends.

        Return `(-1, -1)` when nothing is known of it, as for an epoch later than the latest.
        """
        if epoch == UNDEFINED_EPOCH or not self._epochs:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        return (self._epochs[higher - 1] if higher else epoch), self._starts[higher]

    def epoch_for_offset(self, offset: int) -> int:
        """Return the epoch that wrote `offset`, or -1 when no entry covers it."""
        found = bisect_right(self._starts, offset)
        return self._epochs[found - 1] if found else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int, *, write: bool = True) -> None:
        """Forget epochs that began at or after `end_offset`; without `write` the next change writes the file."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
            self.dirty = True
            if write:
                self.flush()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that ended at or before `start_offset`; let the epoch that it lies in begin there.

        The file is written at the next change, or when the log is closed. An fsync for each log that retention shortens
        would block the event loop, and opening the log forgets these epochs again.
        """
        ended = bisect_right(self._starts, start_offset) - 1
        if ended < 0 or (ended == 0 and self._starts[0] == start_offset):
            return
        del self._epochs[:ended], self._starts[:ended]
        self._starts[0] = start_offset

    def clear(self) -> None:
        """Forget everything."""
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self.latest_epoch = UNDEFINED_EPOCH
            self.flush()

    @property
    def is_stored(self) -> bool:
        """Return whether the file on the device has exactly these entries."""
        return not self.dirty and self.entries() == self._stored

    def covers(self, end_offset: int) -> bool:
        """Return whether the latest epoch has records before `end_offset`."""
        return bool(self._starts) and self._starts[-1] < end_offset

    def relocate(self, path: str, stored: list[tuple[int, int]]) -> None:
        """Use the file at `path` from now on, which has the entries `stored` on the device."""
        self._path = path
        self._stored = stored
        self.dirty = stored != self.entries()

    def flush(self, *, sync_dir: bool = True) -> None:
        """Write the checkpoint file, and force it to the device; its name, too, with `sync_dir`.

        Raises:
            OSError: it could not be written. The cache is right; it stays `dirty` until a write succeeds.
        """
        self.dirty = True
        entries = self.entries()
        write_epochs(self._path, entries, self._ops, sync_dir=sync_dir)
        self._stored = entries
        self.dirty = False
