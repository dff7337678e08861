"""Which leader epoch began where: the cache over ``leader-epoch-checkpoint``.

An entry ``(epoch, start offset)`` says that the leader of that epoch wrote the records from the start offset
up to the next entry's. Followers and consumers ask it where an epoch ends, to find the offset up to which two
logs agree (KIP-101, KIP-320). Epochs and start offsets both grow; assigning an entry removes those it
contradicts.
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
    """Entries of one partition, written through to its checkpoint file.

    Args:
        path: the ``leader-epoch-checkpoint`` file; read now, if it is there. One that cannot be read counts
            as empty: recovery assigns the epochs again from the batches it scans.
    """

    __slots__ = ("_epochs", "_ops", "_path", "_starts", "_stored", "dirty", "latest_epoch")

    def __init__(self, path: str, ops: FileOps = OS) -> None:
        self._path = path
        self._ops = ops
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.latest_epoch = UNDEFINED_EPOCH
        # Entries the file does not have, or not on the device, yet: they must be before a record of theirs is.
        self.dirty = False
        try:
            rows = read_epochs(path)
        except CorruptCheckpointError as error:
            logger.warning("Ignoring a leader-epoch checkpoint: %s. It is begun anew", error)
            rows = []
        for epoch, start in rows:
            self._assign(epoch, start)
        self._stored = self.entries()

    def entries(self) -> list[tuple[int, int]]:
        """``(epoch, start offset)``, oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` began at ``start_offset``; nothing to do for the current epoch."""
        if self._assign(epoch, start_offset) or self.dirty:
            self.flush()

    def announce(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch``, which has no records yet, begins at ``start_offset``.

        Nothing is forced to the device, which for thousands of partitions would take many seconds: a crash loses what
        the next leader says again. The first append does it. Only a file without entries is written now.
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
        """``(epoch found, end offset)``: the largest known epoch at or below ``epoch`` and where it ends.

        ``(-1, -1)`` when nothing is known of it, as for an epoch later than the latest.
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
        """Epoch that wrote ``offset``, or -1 when no entry says."""
        found = bisect_right(self._starts, offset)
        return self._epochs[found - 1] if found else UNDEFINED_EPOCH

    def truncate_from_end(self, end_offset: int, *, write: bool = True) -> None:
        """Forget epochs that began at or after ``end_offset``; without ``write`` the next change tells the file."""
        keep = bisect_left(self._starts, end_offset)
        if keep < len(self._starts):
            del self._epochs[keep:], self._starts[keep:]
            self.latest_epoch = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
            self.dirty = True
            if write:
                self.flush()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that ended at or before ``start_offset``; the one it lies in now begins there.

        The next change, or the log's end, tells the file: an fsync for each log that retention shortens would hold up
        the event loop, and whoever opens the log forgets them again.
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
        """Whether the file, on the device, says what the cache does."""
        return not self.dirty and self.entries() == self._stored

    def covers(self, end_offset: int) -> bool:
        """Whether the latest epoch has records before ``end_offset``."""
        return bool(self._starts) and self._starts[-1] < end_offset

    def relocate(self, path: str, stored: list[tuple[int, int]]) -> None:
        """The file is at ``path`` from now on, where these entries are on the device."""
        self._path = path
        self._stored = stored
        self.dirty = stored != self.entries()

    def flush(self) -> None:
        """Write the checkpoint file.

        Raises:
            OSError: it could not be written; the cache is right, and ``dirty`` until a write succeeds.
        """
        self.dirty = True
        entries = self.entries()
        write_epochs(self._path, entries, self._ops)
        self._stored = entries
        self.dirty = False
