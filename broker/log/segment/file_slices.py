"""Open segment files and the slices of them that readers hold.

A `SegmentFile` owns one descriptor and closes it when the last reference to it is gone. The segment drops its
reference when it is deleted; a `FileSlice` that is being sent keeps one. So a segment can be unlinked while it is
read, and the reader still gets every byte of its slice.
"""

from __future__ import annotations

import os

from broker.log.files.open_files import OpenFiles
from broker.log.read.read_ahead import ReadAhead, Stretch


class SegmentFile:
    """Hold an open `.log` file, which is closed when nothing refers to this object any more.

    Keep a reference to this object while you use `fd`. The segment may drop its own reference at any moment, and the
    same number may then belong to another file.
    """

    __slots__ = ("__weakref__", "_open_files", "_read_ahead", "fd")

    def __init__(self, fd: int, open_files: OpenFiles) -> None:
        self.fd = fd
        self._open_files = open_files
        self._read_ahead: ReadAhead | None = None
        open_files.opened(fd)

    def missed(self, position: int, length: int) -> None:
        """Note that `length` bytes at `position` are being read from the disk for a reader that waits for them."""
        if self._read_ahead is None:
            self._read_ahead = ReadAhead()
        self._read_ahead.missed(position, position + length)

    def stretch_after(self, position: int, length: int) -> Stretch | None:
        """Return what a worker should read ahead, now that a reader has reached these bytes; None if nothing."""
        return None if self._read_ahead is None else self._read_ahead.after(position, position + length)

    def __del__(self) -> None:
        self._open_files.closed(self.fd)
        os.close(self.fd)


class FileSlice:
    """Hold bytes `[position, position + length)` of an open segment file, which `os.sendfile` sends.

    `len()` is the length, so that an encoder can count a slice in the same way as bytes.
    """

    __slots__ = ("file", "length", "position")

    def __init__(self, file: SegmentFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    @property
    def fd(self) -> int:
        """Descriptor of the file, open as long as this slice lives."""
        return self.file.fd

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileSlice(fd={self.file.fd}, position={self.position}, length={self.length})"

    def read(self) -> bytes:
        """Read the bytes into memory. There are fewer than `length` if the file was cut meanwhile."""
        parts = []
        position, left = self.position, self.length
        while left:
            data = os.pread(self.file.fd, left, position)
            if not data:
                break
            parts.append(data)
            position += len(data)
            left -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)


class ReadResult:
    """Hold what a read found: slices in offset order; the first one begins with a whole batch."""

    __slots__ = ("size", "slices")

    def __init__(self, slices: list[FileSlice], size: int) -> None:
        self.slices = slices
        self.size = size

    def read(self) -> bytes:
        """Read the bytes of all slices and join them."""
        return b"".join([piece.read() for piece in self.slices])
