"""The interface to file systems: operations to read log directories, and those that loads write with.

Loads depend on `Files.rename`: it is atomic, and fails if the target exists, even if that is an empty directory.
"""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from typing import IO, NamedTuple, Protocol


class Entry(NamedTuple):
    """A file or directory."""

    name: str
    path: str
    """The path by which `FileSystem` finds it again, from any process."""
    is_directory: bool
    size: int
    modified: int
    """Time of modification by the file system's clock, in ns since 1970, as exact as it has; 0 if it has none."""

    @property
    def modified_ms(self) -> int:
        return self.modified // 1_000_000


class File(Protocol):
    """A file open for reading."""

    size: int
    """Bytes when the file was opened."""

    def read(self, at: int, size: int) -> memoryview:
        """Read up to `size` bytes from position `at`; fewer only at the file's end. Any thread may call it."""

    def close(self) -> None:
        """Close the file."""


class FileSystem(ABC):
    """A file system to read from. Paths to read may be URLs of it.

    Failures are OSErrors: FileNotFoundError, FileExistsError, PermissionError, or a plain one with the reason.
    """

    is_local = False
    """True if the operating system reads ahead."""

    @abstractmethod
    def stat(self, path: str) -> Entry | None:
        """Return the file or directory at a path; None if there is none."""

    @abstractmethod
    def entries(self, directory: str) -> list[Entry]:
        """Return a directory's entries by name.

        Raises:
            FileNotFoundError: The directory is missing.
        """

    @abstractmethod
    def open(self, path: str) -> File:
        """Open a file for reading.

        Raises:
            FileNotFoundError: The file is missing.
        """

    def list(self, directory: str) -> list[Entry]:
        """Return a directory's entries by name; none if it is missing."""
        try:
            return self.entries(directory)
        except FileNotFoundError:
            return []


class Files(FileSystem):
    """A file system to read and write. Paths to write are absolute within it. Objects are pickled for executors."""

    @abstractmethod
    def url(self, path: str) -> str:
        """Return Spark's name of `path`."""

    @abstractmethod
    def create(self, path: str) -> io.RawIOBase:
        """Create a file to write. Its data is on the device when `close` returns.

        Raises:
            FileExistsError: The file exists.
            FileNotFoundError: Its directory is missing.
        """

    @abstractmethod
    def replace(self, path: str, data: bytes) -> None:
        """Rewrite a small file, which gives it a new modification time. Its directory must exist."""

    @abstractmethod
    def stream(self, path: str) -> IO[bytes]:
        """Open a file to read from its beginning, with `seek`.

        Raises:
            FileNotFoundError: The file is missing.
        """

    @abstractmethod
    def make_directories(self, path: str) -> None:
        """Create a directory and its parents, as far as they are missing."""

    @abstractmethod
    def rename(self, source: str, target: str) -> None:
        """Move a file or directory atomically.

        Raises:
            FileExistsError: The target exists. Nothing has changed.
        """

    @abstractmethod
    def delete(self, path: str) -> None:
        """Delete a file, or a directory with its contents. Nothing happens if it is missing."""

    @abstractmethod
    def remove_empty(self, path: str) -> None:
        """Remove a directory if it exists and is empty."""

    @abstractmethod
    def sync_tree(self, path: str) -> None:
        """Force the names in a directory, and in all below it, to the device."""

    @abstractmethod
    def sync(self, path: str) -> None:
        """Force the names in one directory to the device."""

    def read(self, path: str) -> bytes:
        """Read a whole file."""
        with self.stream(path) as file:
            return file.read()

    def write(self, path: str, data: bytes) -> None:
        """Create a small file with this content."""
        with self.create(path) as file:
            file.write(data)
