"""The names of a segment's files, and its open `.log` file.

The files have several names during their life. While compaction replaces segments, the names of the new files end with
`.cleaned` and then with `.swap`. The names of a deleted segment's files end with `.deleted` until the files are
removed. The directory changes when the partition is deleted or moved to another log directory.
"""

from __future__ import annotations

import os
import weakref

from broker.log.resources import LogResources
from broker.log.segment.file_slices import SegmentFile
from kafkalog.storage import names

KINDS = (names.LOG, names.INDEX, names.TIME_INDEX, names.TXN_INDEX)


class SegmentWriteError(OSError):
    """A failed append could not be undone. The file's end is unknown, so nothing may be appended to it."""


class SegmentFiles:
    """Name, open, rename and remove the files of one segment.

    Attributes:
        directory: path of the directory that holds the files.
        base_offset: the offset with which their names begin.
        suffix: what their names end with.
        used: see `open_files.FileHolder`.
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
        """Return the path of the file with this ending."""
        return os.path.join(self.directory, names.segment_name(self.base_offset, kind) + self.suffix)

    def paths(self) -> list[str]:
        """Return the paths of the files that exist or may exist, the `.log` file first."""
        return [self.path(kind) for kind in KINDS]

    # -- the open file ---------------------------------------------------------------------------------------

    @property
    def log(self) -> SegmentFile:
        """The open `.log` file. Hold it while you use its descriptor; see `open_files`."""
        file = self._open
        if file is None:
            # A slice that is being sent may still hold it.
            file = None if self._last_open is None else self._last_open()
            if file is None:
                file = SegmentFile(
                    self._resources.ops.open(self.path(names.LOG), os.O_RDWR), self._resources.open_files
                )
            self._keep_open(file)
        self.used = True
        return file

    def create(self) -> SegmentFile:
        """Make the `.log` file, empty, and return it.

        Raises:
            OSError: the file could not be made.
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
        """Close the descriptor; the next use opens the file again.

        A file with unforced writes may be closed, too. If the device fails, the fsync of the next opener reports it
        (Linux 4.16 and newer).
        """
        self._open = None

    def release(self) -> None:
        """Close the descriptor and forget the file; only slices in flight keep it open."""
        self._open = self._last_open = None

    # -- renaming and removing -------------------------------------------------------------------------------

    def rename_to(self, suffix: str) -> None:
        """Give the files names that end with `suffix`, the `.log` file first.

        Raises:
            OSError: a file could not be renamed; the files before it have their new names.
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
            OSError: a file could not be removed.
        """
        for path in self.paths():
            self._resources.ops.unlink(path)
