"""Files of this machine, and of file systems mounted there."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from spark_kafkalog.fs.interface import Entry, File, Files
from spark_kafkalog.fs.paths import local_path
from spark_kafkalog.fs.renaming import rename_without_replacing

if TYPE_CHECKING:
    from typing_extensions import Buffer


class LocalFile:
    """Reads with `pread`: with a mapping, the process would be killed if a broker truncated the file."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = os.fstat(self._fd).st_size

    def read(self, at: int, size: int) -> memoryview:
        # Imported here because loads do not need numpy. Unlike a bytearray, its memory is not cleared first.
        import numpy as np

        size = max(min(size, self.size - at), 0)
        view = memoryview(np.empty(size, np.uint8))  # type: ignore[arg-type]
        filled = 0
        while filled < size:
            count = os.preadv(self._fd, [view[filled:]], at + filled)
            if count == 0:
                break
            filled += count
        return view[:filled]

    def close(self) -> None:
        os.close(self._fd)


class _Output(io.RawIOBase):
    """A new local file, forced to the device when it is closed."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def writable(self) -> bool:
        return True

    def write(self, data: Buffer, /) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while done < len(view):
            done += os.write(self._file, view[done:])
        return done

    def close(self) -> None:
        if self.closed:
            return
        try:
            os.fsync(self._file)
        finally:
            os.close(self._file)
            super().close()


@dataclass(frozen=True)
class LocalFiles(Files):
    """Directories of this machine, or mounted on it. Executors on other machines must see the same ones."""

    is_local = True

    def url(self, path: str) -> str:
        return Path(path).as_uri()

    def create(self, path: str) -> io.RawIOBase:
        return _Output(path)

    def replace(self, path: str, data: bytes) -> None:
        with open(path, "wb") as file:
            file.write(data)

    def open(self, path: str) -> File:
        return LocalFile(local_path(path))

    def stream(self, path: str) -> IO[bytes]:
        return open(local_path(path), "rb")

    def make_directories(self, path: str) -> None:
        os.makedirs(path, exist_ok=True)

    def entries(self, directory: str) -> list[Entry]:
        found = []
        with os.scandir(local_path(directory)) as children:
            for child in children:
                # It may have been removed meanwhile, or be a dangling link.
                with contextlib.suppress(FileNotFoundError):
                    found.append(_entry(child.name, child.path, child.stat()))
        return sorted(found)

    def stat(self, path: str) -> Entry | None:
        # Absolute, because executors have other working directories, and callers look at parent directories, too.
        real = os.path.abspath(local_path(path))
        try:
            return _entry(os.path.basename(real), real, os.stat(real))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def rename(self, source: str, target: str) -> None:
        try:
            rename_without_replacing(source, target)
        except OSError as error:
            if error.errno == errno.ENOTEMPTY:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), source, None, target) from None
            raise

    def delete(self, path: str) -> None:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def remove_empty(self, path: str) -> None:
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTEMPTY, errno.EEXIST):
                raise

    def sync_tree(self, path: str) -> None:
        for directory, _, _ in os.walk(path):
            self.sync(directory)

    def sync(self, path: str) -> None:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _entry(name: str, path: str, status: os.stat_result) -> Entry:
    return Entry(name, path, stat.S_ISDIR(status.st_mode), status.st_size, status.st_mtime_ns)
