"""Where a segment is stored: the names of its files, and the open ``.log`` file.

The files go by several names in their time. Those of a compacted segment end with ``.cleaned``, then with ``.swap``,
before they have their own; those of a deleted one end with ``.deleted`` until they are removed. Their directory changes
when the partition is deleted, or moved to another log directory.
"""

from __future__ import annotations

import os
import weakref

from broker.log.resources import LogResources
from broker.log.segment.file_slices import SegmentFile
from kafkalog.storage import names

KINDS = (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX)


class SegmentWriteError(OSError):
    """A failed append could not be undone: the file's end is unknown and nothing may be appended to it."""


class SegmentFiles:
    """See the module.

    Attributes:
        directory: where the files lie.
        base_offset: what their names begin with.
        suffix: what their names end with.
        used: see `open_files.Holder`.
    """

    __slots__ = ("__weakref__", "_last_open", "_open", "_resources", "base_offset", "directory", "suffix", "used")

    def __init__(self, directory: str, base_offset: int, resources: LogResources, suffix: str = "") -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.suffix = suffix
        self.used = False
        self._resources = resources
        self._open: SegmentFile | None = None
        self._last_open: weakref.ref[SegmentFile] | None = None

    def path(self, kind: str) -> str:
        """Path of one of the files, by ending."""
        return os.path.join(self.directory, names.segment_name(self.base_offset, kind) + self.suffix)

    def paths(self) -> list[str]:
        """Paths of the files that there are or may be, the ``.log`` file first."""
        return [self.path(kind) for kind in KINDS]

    # -- the open file ---------------------------------------------------------------------------------------

    @property
    def log(self) -> SegmentFile:
        """The open ``.log`` file; whoever uses its descriptor holds it meanwhile (`open_files`)."""
        file = self._open
        if file is None:
            # A slice on its way may hold it still.
            file = None if self._last_open is None else self._last_open()
            if file is None:
                file = SegmentFile(
                    self._resources.ops.open(self.path(names.LOG), os.O_RDWR), self._resources.open_files
                )
            self._keep_open(file)
        self.used = True
        return file

    def create(self) -> SegmentFile:
        """Make the ``.log`` file, empty.

        Raises:
            OSError: it could not be made.
        """
        file = SegmentFile(
            self._resources.ops.open(self.path(names.LOG), os.O_RDWR | os.O_CREAT | os.O_TRUNC),
            self._resources.open_files,
        )
        self._keep_open(file)
        return file

    def _keep_open(self, file: SegmentFile) -> None:
        self._open = file
        self._last_open = weakref.ref(file)
        self._resources.open_files.admit(self)

    def close_idle(self) -> None:
        """Let go of the descriptor; the next use opens the file again.

        That goes for a file with unforced writes, too: the device's error, should there be one, is the next opener's
        to learn from its fsync (Linux 4.16 and newer).
        """
        self._open = None

    def release(self) -> None:
        """Let go of the descriptor; slices in flight keep the file open, and nobody else is given it."""
        self._open = self._last_open = None

    # -- other names, and none -------------------------------------------------------------------------------

    def rename_to(self, suffix: str) -> None:
        """Give the files names that end with ``suffix``, the ``.log`` file first.

        Raises:
            OSError: a file could not be renamed; those before it have their new names.
        """
        for path in self.paths():
            try:
                self._resources.ops.rename(path, path.removesuffix(self.suffix) + suffix)
            except FileNotFoundError:
                if not path.endswith(names.TXN_INDEX + self.suffix):
                    raise
        self.suffix = suffix

    def mark_deleted(self) -> list[str]:
        """Rename the files for later removal and return their new paths."""
        paths = []
        for path in self.paths():
            try:
                self._resources.ops.rename(path, path + names.DELETED)
            except FileNotFoundError:
                continue
            paths.append(path + names.DELETED)
        self.suffix = names.DELETED
        return paths

    def remove(self) -> None:
        """Unlink the files.

        Raises:
            OSError: one could not be removed.
        """
        for path in self.paths():
            self._resources.ops.unlink(path)
