"""What a segment is stored in: the names of its files, the open ``.log`` file, the indexes that are in memory.

The files go by several names in their time. Those of a compacted segment end with ``.cleaned``, then with ``.swap``,
before they have their own; those of a deleted one end with ``.deleted`` until they are removed. Their directory changes
when the partition is deleted, or moved to another log directory.
"""

from __future__ import annotations

import os
import weakref

from broker.log.file_ops import FileOps
from broker.log.offset_index import OffsetIndex
from broker.log.open_files import OPEN_FILES
from broker.log.segment_file import SegmentFile
from broker.log.time_index import TimeIndex
from kafkalog.storage import names


class SegmentWriteError(OSError):
    """A failed append could not be undone: the file's end is unknown and nothing may be appended to it."""


class StoredSegment:
    """See the module; ``Segment`` is built upon it.

    Attributes:
        directory: where its files lie.
        base_offset: what their names begin with.
        suffix: what their names end with.
        used: see `open_files.Holder`.
    """

    __slots__ = (
        "__weakref__", "_file", "_index", "_last_file", "_ops", "_time_index", "_writable", "base_offset", "directory",
        "suffix", "used",
    )  # fmt: skip

    def __init__(self, directory: str, base_offset: int, ops: FileOps) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = ""
        self.used = False
        self._ops = ops
        self._file: SegmentFile | None = None
        self._last_file: weakref.ref[SegmentFile] | None = None
        self._index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        # Whether both indexes are in memory, and have room for what is appended.
        self._writable = False

    def path(self, kind: str) -> str:
        """Path of one of its files, by ending."""
        return os.path.join(self.directory, names.segment_name(self.base_offset, kind) + self.suffix)

    def files(self) -> list[str]:
        """Paths of the files it has or may have."""
        return [self.path(kind) for kind in (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX)]

    # -- the open file ---------------------------------------------------------------------------------------

    @property
    def file(self) -> SegmentFile:
        """The open ``.log`` file; who uses its descriptor holds it meanwhile (`open_files`)."""
        file = self._file
        if file is None:
            # A slice on its way may hold it still.
            file = None if self._last_file is None else self._last_file()
            if file is None:
                file = SegmentFile(self._ops.open(self.path(names.LOG), os.O_RDWR))
            self._keep_open(file)
        self.used = True
        return file

    def _keep_open(self, file: SegmentFile) -> None:
        self._file = file
        self._last_file = weakref.ref(file)
        OPEN_FILES.admit(self)

    def close_idle(self) -> None:
        """Let go of the descriptor; the next use opens the file again.

        That goes for a file with unforced writes, too: the device's error, should there be one, is the next opener's
        to learn from its fsync (Linux 4.16 and newer).
        """
        self._file = None

    def release(self) -> None:
        """Let go of the descriptor and the maps; slices in flight keep the file open."""
        self._file = self._last_file = self._index = self._time_index = None
        self._writable = False

    # -- other names, and none -------------------------------------------------------------------------------

    def move(self, directory: str) -> None:
        """Its directory gets another name: a flush beside this must not find a new log's files under the old one."""
        self.directory = directory
        for index, kind in ((self._index, names.INDEX), (self._time_index, names.TIME_INDEX)):
            if index is not None:
                index.path = self.path(kind)

    def relocate(self, directory: str) -> None:
        """Copies of its files are in ``directory``, and those are its files from now on; slices in flight keep theirs.

        What is in memory of its indexes stays there.
        """
        self.directory = directory
        self._file = self._last_file = None
        for index, kind in ((self._index, names.INDEX), (self._time_index, names.TIME_INDEX)):
            if index is not None:
                index.relocate(self.path(kind))

    def rename_to(self, suffix: str) -> None:
        """Give its files names that end with ``suffix``, the ``.log`` file first; its indexes are loaded anew.

        Raises:
            OSError: a file could not be renamed; those before it have their new names.
        """
        self._index = self._time_index = None
        for path in self.files():
            try:
                self._ops.rename(path, path.removesuffix(self.suffix) + suffix)
            except FileNotFoundError:
                if not path.endswith(names.TXN_INDEX + self.suffix):
                    raise
        self.suffix = suffix

    def mark_deleted(self) -> list[str]:
        """Rename its files for later removal and return their new paths; slices in flight stay readable."""
        paths = []
        for path in self.files():
            try:
                self._ops.rename(path, path + names.DELETED)
            except FileNotFoundError:
                continue
            paths.append(path + names.DELETED)
        self.suffix = names.DELETED
        self.release()
        return paths

    def discard(self) -> None:
        """Unlink the files of a new segment that is not to be: found later, it would seem to be the log's end.

        Raises:
            SegmentWriteError: they could not be removed.
        """
        try:
            self.remove()
        except OSError as error:
            raise SegmentWriteError(error.errno, f"cannot remove {self.path(names.LOG)}") from error

    def remove(self) -> None:
        """Unlink its files; slices in flight stay readable."""
        self.release()
        for path in self.files():
            self._ops.unlink(path)
