"""The parts of a response: bytes, and slices of log segments that `sendfile` sends."""

from __future__ import annotations

from typing import Protocol, TypeAlias

Bytes: TypeAlias = bytes | bytearray | memoryview
BYTES = (memoryview, bytes, bytearray)
"""The types of `Bytes`, for `isinstance`: a chunk of any other type is a `FileSlice`."""


class Stretch(Protocol):
    """Bytes of a file that a worker should read ahead. Call `done` when it has read them."""

    @property
    def position(self) -> int: ...

    @property
    def length(self) -> int: ...

    def done(self) -> None: ...


class SlicedFile(Protocol):
    """An open file. It stays open while something refers to it, and it recognises sequential readers."""

    @property
    def fd(self) -> int: ...

    def missed(self, position: int, length: int, /) -> None:
        """Note that these bytes are not in memory and that a reader waits for them."""

    def stretch_after(self, position: int, length: int, /) -> Stretch | None:
        """Return what to read ahead while these bytes are sent, if anything."""


class FileSlice(Protocol):
    """Bytes `[position, position + length)` of a file; `len()` is the length."""

    @property
    def file(self) -> SlicedFile: ...

    @property
    def fd(self) -> int: ...

    @property
    def position(self) -> int: ...

    def __len__(self) -> int: ...


Chunk: TypeAlias = Bytes | FileSlice
