"""Open segment files and the slices of them that readers hold.

A ``SegmentFile`` owns one descriptor and closes it when the last reference goes: the segment drops its own
when it is deleted, a ``FileSlice`` on its way out of a socket keeps it. So a segment can be unlinked while it
is being read, and the reader still gets every byte it was promised.
"""

from __future__ import annotations

import os

from broker.log.files.open_files import OpenFiles
from broker.log.read.read_ahead import ReadAhead, Stretch


class SegmentFile:
    """An open ``.log`` file. Not to be closed by hand: it closes when nothing refers to it any more.

    So who uses ``fd`` keeps the ``SegmentFile`` meanwhile: its segment may let go of it at any moment, and the number
    may then be another file's.
    """

    __slots__ = ("__weakref__", "_open_files", "_read_ahead", "fd")

    def __init__(self, fd: int, open_files: OpenFiles) -> None:
        self.fd = fd
        self._open_files = open_files
        self._read_ahead: ReadAhead | None = None
        open_files.opened(fd)

    def missed(self, position: int, length: int) -> None:
        """So many bytes at ``position`` are not in memory, and are being read in for a reader who waits."""
        if self._read_ahead is None:
            self._read_ahead = ReadAhead()
        self._read_ahead.missed(position, position + length)

    def stretch_after(self, position: int, length: int) -> Stretch | None:
        """What a worker should read in, now that a reader is at these bytes."""
        return None if self._read_ahead is None else self._read_ahead.after(position, position + length)

    def __del__(self) -> None:
        self._open_files.closed(self.fd)
        os.close(self.fd)


class FileSlice:
    """Bytes ``[position, position + length)`` of an open segment file, to be sent with ``os.sendfile``.

    ``len()`` is the length, so that an encoder can count a slice as it counts bytes.
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
        """The bytes themselves, for callers that need them in memory. May be short if the file was cut
        meanwhile.
        """
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
    """What a read found: slices in offset order, the first of which begins with a whole batch."""

    __slots__ = ("size", "slices")

    def __init__(self, slices: list[FileSlice], size: int) -> None:
        self.slices = slices
        self.size = size

    def read(self) -> bytes:
        """All bytes, joined."""
        return b"".join([piece.read() for piece in self.slices])
