"""What kafkalog needs of a file system: the few calls that reading log directories takes, and those of loads.

Loads stand on :meth:`Files.rename`: it happens at once or not at all, and fails where the target exists, be it an empty
directory.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import IO, NamedTuple, Protocol


class Entry(NamedTuple):
    """A file or directory."""

    name: str
    path: str
    """How `FileSystem` finds it again, from any process."""
    is_directory: bool
    size: int
    modified: int
    """By the file system's own clock, in ns since 1970 as exactly as it has them; 0 where it has no time."""

    @property
    def modified_ms(self) -> int:
        return self.modified // 1_000_000


class File(Protocol):
    """A file open for reading."""

    size: int
    """Bytes when it was opened."""

    def read(self, at: int, size: int) -> memoryview:
        """Up to ``size`` bytes from ``at`` on; fewer only at the file's end. Any thread may call it."""

    def close(self) -> None:
        """Let go of it."""


class FileSystem(ABC):
    """A file system to read from. A path to read may be a URL of it.

    Failures are OSErrors: FileNotFoundError, FileExistsError, PermissionError, or a plain one with the reason.
    """

    is_local = False
    """Whether reading ahead is the operating system's business."""

    @abstractmethod
    def stat(self, path: str) -> Entry | None:
        """What lies at a path; None where nothing does."""

    @abstractmethod
    def entries(self, directory: str) -> list[Entry]:
        """A directory's files and directories by name; FileNotFoundError where it is missing."""

    @abstractmethod
    def open(self, path: str) -> File:
        """Open a file for reading; FileNotFoundError where it is missing."""

    def list(self, directory: str) -> list[Entry]:
        """As `entries`, but nothing where the directory is missing."""
        try:
            return self.entries(directory)
        except FileNotFoundError:
            return []


class Files(FileSystem):
    """A file system to write to, too. Paths to write are absolute within it; objects go to executors by pickle."""

    @abstractmethod
    def url(self, path: str) -> str:
        """How Spark names ``path``."""

    @abstractmethod
    def create(self, path: str) -> io.RawIOBase:
        """A new file to write; what is written is on the device once ``close`` returns.

        FileExistsError where there is one; FileNotFoundError where its directory is missing.
        """

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Write a small file anew, by which it gets a new modification time. Its directory must be there."""

    @abstractmethod
    def stream(self, path: str) -> IO[bytes]:
        """A file to read from its beginning, with ``seek``; FileNotFoundError where it is missing."""

    @abstractmethod
    def make_directories(self, path: str) -> None:
        """A directory and those above it, where they are missing."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Move a file or directory at once. FileExistsError where the target exists, in which case nothing changes."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, or a directory with all that is in it. Nothing happens where it is missing."""

    @abstractmethod
    def remove_empty(self, path: str) -> None:
        """Remove a directory if it is there and empty."""

    @abstractmethod
    def sync_tree(self, path: str) -> None:
        """Have the names in a directory, and in those below it, on the device."""

    @abstractmethod
    def sync(self, path: str) -> None:
        """Have the names in one directory on the device."""

    def read(self, path: str) -> bytes:
        """The content of a file."""
        with self.stream(path) as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        """A new small file with this content."""
        with self.create(path) as file:
            file.write(data)
