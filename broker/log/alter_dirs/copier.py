"""Copying a log's files into a future directory."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path

from broker.log.alter_dirs.moved_from import forget_moved_from, write_moved_from
from broker.log.alter_dirs.plan import Copied, Copy, Extent, Round, plan
from broker.log.directories.checkpoints import sync_partition_metadata, write_epochs, write_partition_metadata
from broker.log.files.file_ops import OS, FileOps, write_all
from kafkalog.storage import names

SLICE_BYTES = 1 << 20
"""Bytes that are copied at once. The move may be ended after each such slice."""
SYNC_BYTES = 64 << 20
"""The copy is forced to the device after so many bytes: more unwritten data would delay the flushes of other logs."""

_KEPT = frozenset({names.PARTITION_METADATA, names.LEADER_EPOCH_CHECKPOINT})
_INDEXES = (names.INDEX, names.TIME_INDEX, names.TXN_INDEX)
"""Files that may be missing: `.txnindex` if no transaction was aborted, and the others because they are rebuilt."""


class SourceError(OSError):
    """The log cannot be read."""


class StaleError(Exception):
    """The log has changed since its files were listed. List them again."""


class Copier:
    """Copy the files of one log. Used by one thread at a time.

    Args:
        directory: the future directory.
        pace: called with the number of bytes after each slice. It may wait, and it raises when the move has ended.

    Attributes:
        have: the files that were copied, for `plan.plan`.
        epochs: the leader epochs that are on the device with the copy; None until `settle`.
    """

    def __init__(self, directory: Path, ops: FileOps = OS, pace: Callable[[int], None] = lambda size: None) -> None:
        self.directory = directory
        self.have: dict[str, Copied] = {}
        self.epochs: list[tuple[int, int]] | None = None
        self._ops = ops
        self._pace = pace
        self._unsynced: set[str] = set()

    @property
    def size(self) -> int:
        """The bytes of the `.log` files that were copied."""
        return sum(copied.length for name, copied in list(self.have.items()) if name.endswith(names.LOG))

    # -- what an earlier attempt has left ----------------------------------------------------------------------------

    def take_over(self, source: Path, wanted: Mapping[str, Extent]) -> None:
        """Keep the complete segments that an earlier attempt has copied, and remove everything else.

        A `.log` file has the size and the time of change of its original only after its indexes and then itself were
        forced to the device (`sync`).
        """
        forget_moved_from(str(self.directory), self._ops)
        logs = [name for name in wanted if name.endswith(names.LOG)]
        # Not the newest segment, which grows.
        whole = [name for name in logs[:-1] if self._is_whole(source, name)]
        for log in whole:
            for name in (*(log.removesuffix(names.LOG) + kind for kind in _INDEXES), log):
                length = _size(self.directory / name)
                self.have[name] = Copied(length or 0, wanted[name].stamp, True)
        with os.scandir(self.directory) as entries:
            left = [entry.path for entry in entries if entry.name not in self.have and entry.name not in _KEPT]
        for path in left:
            self._ops.unlink(path)
        # The file tells the next start to which topic this copy belongs.
        sync_partition_metadata(str(self.directory), self._ops)
        self._ops.fsync_dir(str(self.directory))
        self._ops.fsync_dir(str(self.directory.parent))

    def _is_whole(self, source: Path, name: str) -> bool:
        try:
            here, there = os.stat(self.directory / name), os.stat(source / name)
        except FileNotFoundError:
            return False
        return (here.st_size, here.st_mtime_ns) == (there.st_size, there.st_mtime_ns)

    # -- copying -----------------------------------------------------------------------------------------------------

    def lacks(self, wanted: Mapping[str, Extent]) -> Round:
        """Return what is still to be copied of the `wanted` files."""
        return plan(wanted, self.have)

    def apply(self, source: Path, wanted: Mapping[str, Extent], round_: Round) -> None:
        """Copy the files of a round from the directory `source`.

        Raises:
            StaleError: a file does not exist any more, or is shorter.
            SourceError: the log cannot be read.
            OSError: the copy cannot be written.
        """
        for name in round_.removals:
            self._ops.unlink(str(self.directory / name))
            self._unsynced.discard(name)
            del self.have[name]
        for copy in round_.copies:
            self._copy(source, copy, wanted[copy.name])

    def _copy(self, source: Path, copy: Copy, extent: Extent) -> None:
        name = copy.name
        if copy.start == 0:
            self.have.pop(name, None)
        try:
            origin = os.open(source / name, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            if not name.endswith(_INDEXES):
                raise StaleError(name) from None
            self._ops.unlink(str(self.directory / name))
            self._unsynced.discard(name)
            self.have[name] = Copied(0, extent.stamp, True)
            return
        except OSError as error:
            raise SourceError(error.errno, f"cannot open {source / name}: {error.strerror}") from error
        try:
            flags = os.O_RDWR | os.O_CREAT | (os.O_TRUNC if copy.start == 0 else 0)
            target = self._ops.open(str(self.directory / name), flags)
            try:
                self._unsynced.add(name)
                self._copy_bytes(origin, target, copy, extent)
            finally:
                os.close(target)
        finally:
            os.close(origin)

    def _copy_bytes(self, origin: int, target: int, copy: Copy, extent: Extent) -> None:
        position, since_sync = copy.start, 0
        while copy.end is None or position < copy.end:
            wanted = SLICE_BYTES if copy.end is None else min(SLICE_BYTES, copy.end - position)
            try:
                data = os.pread(origin, wanted, position)
            except OSError as error:
                raise SourceError(error.errno, f"cannot read {copy.name}: {error.strerror}") from error
            if not data and copy.end is None:
                break
            if not data:
                raise StaleError(copy.name)
            write_all(self._ops, target, data, position)
            position += len(data)
            since_sync += len(data)
            self.have[copy.name] = Copied(position, extent.stamp)
            if since_sync >= SYNC_BYTES:
                self._ops.fsync(target)
                since_sync = 0
            self._pace(len(data))
        # Preallocate the file if the log still writes to it.
        self._ops.ftruncate(target, max(position, extent.reserve))
        self.have[copy.name] = Copied(position, extent.stamp, copy.end is None, extent.reserve)

    # -- forcing the copy to the device ------------------------------------------------------------------------------

    def sync(self, source: Path, wanted: Mapping[str, Extent]) -> None:
        """Force what was copied to the device, and mark the segments that will not change as complete.

        Raises:
            OSError: a file cannot be forced.
        """
        logs = [name for name in wanted if name.endswith(names.LOG)]
        for name in sorted(self._unsynced, key=lambda name: name.endswith(names.LOG)):
            path = str(self.directory / name)
            fd = self._ops.open(path, os.O_RDWR)
            try:
                self._ops.fsync(fd)
            finally:
                os.close(fd)
            if name in logs[:-1] and self.have[name].length == wanted[name].length:
                try:
                    changed = os.stat(source / name).st_mtime_ns
                except FileNotFoundError:
                    continue
                os.utime(path, ns=(changed, changed))
        self._unsynced.clear()

    def settle(self, log_dir: Path, epochs: list[tuple[int, int]], topic_id: uuid.UUID | None) -> None:
        """Make the directory complete: write the files that are not copied and the marker, all forced to the device.

        Args:
            log_dir: the log directory from which the log is moved.
            epochs: the leader epochs of the log.

        Raises:
            OSError: a file cannot be written.
        """
        directory = str(self.directory)
        write_epochs(str(self.directory / names.LEADER_EPOCH_CHECKPOINT), epochs, self._ops)
        if topic_id is not None:
            write_partition_metadata(directory, topic_id, self._ops)
            sync_partition_metadata(directory, self._ops)
        # This forces the names of the other files, too.
        write_moved_from(directory, log_dir, self._ops)
        self._ops.fsync_dir(str(self.directory.parent))
        self.epochs = epochs


def _size(path: Path) -> int | None:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None
