"""The disk of a simulated host: what was not forced to the device may be gone after a loss of power.

Files are real ones, in memory where the system has room. `tests.crash.lossy_disk` keeps account of what was synced.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import shutil
from pathlib import Path

from broker.log.files.file_ops import Buffer
from kafkalog.records.batch import iter_headers, verify_crc
from kafkalog.records.errors import RecordsError
from kafkalog.storage.names import parse_served_dir
from tests.crash.lossy_disk import Disk, Entry, RecordingOps

PartitionKey = tuple[str, int]


class HostDisk:
    """The directories of one host, which outlive its processes.

    Attributes:
        root: holds all of them.
        failed: the directories that refuse every change.
    """

    def __init__(self, root: Path, directories: tuple[str, ...]) -> None:
        self.root = root
        self.directories = [root / name for name in directories]
        self.failed: set[Path] = set()
        root.mkdir(parents=True)
        self._disk = Disk(str(root))

    def record(self, entry: Entry) -> None:
        """Keep account of one operation."""
        self._disk.play((entry,))

    def blank_files(self) -> list[int]:
        """Take the files from a process that was killed: the simulated processes share one table of descriptors.

        The descriptors stay, with nothing behind them, for the process's objects close them when they are collected.

        Returns:
            The descriptors.
        """
        prefix = f"{self.root}{os.sep}"
        found = []
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for name in os.listdir("/proc/self/fd"):
            with contextlib.suppress(OSError):
                if os.readlink(f"/proc/self/fd/{name}").startswith(prefix):
                    os.dup2(nothing, int(name), inheritable=False)
                    found.append(int(name))
        os.close(nothing)
        return found

    def lose_power(self, chance: random.Random) -> None:
        """Lose what was not forced to the device, as chance has it: sometimes all of it."""
        loses_all = chance.random() < 0.3
        image = self.root.with_name(f"{self.root.name}.image")
        self._disk.image(image, (lambda n: 0) if loses_all else chance.randrange)
        shutil.rmtree(self.root)
        image.rename(self.root)
        self._disk = Disk(str(self.root))
        HostFiles(self).adopt(self.root)

    def repair(self) -> None:
        """Let failed directories work again."""
        self.failed.clear()

    def ends(self) -> dict[PartitionKey, int]:
        """Return where the whole batches of each partition end that the files have, without the product's help."""
        found: dict[PartitionKey, int] = {}
        for directory in self.directories:
            for name in sorted(os.listdir(directory)) if directory.exists() else ():
                key = parse_served_dir(name)
                if key is not None:
                    found[key] = _end(directory / name)
        return found


def _end(directory: Path) -> int:
    end = -1
    for path in sorted(directory.glob("*.log")):
        base = int(path.stem)
        if end not in (base, -1):
            break
        end = base
        data = path.read_bytes()
        size = 0
        try:
            for position, header in iter_headers(data):
                if header.base_offset < end:
                    return end
                verify_crc(data, position, header)
                end, size = header.next_offset, position + header.size
        except RecordsError:
            return end
        if size < len(data):
            break
    return max(end, 0)


def close_blank(descriptors: list[int]) -> None:
    """Close what is left of `HostDisk.blank_files`, once the objects of the processes are gone."""
    for each in descriptors:
        with contextlib.suppress(OSError):
            if os.readlink(f"/proc/self/fd/{each}") == os.devnull:
                os.close(each)


class HostFiles(RecordingOps):
    """The file operations of one process."""

    __slots__ = ("_host", "is_dead")

    def __init__(self, host: HostDisk) -> None:
        super().__init__(host.record)
        self._host = host
        self.is_dead = False

    def _check(self, path: str) -> None:
        if self.is_dead:
            raise OSError(errno.EIO, "the process was killed")
        for each in self._host.failed:
            if path.startswith(str(each)):
                raise OSError(errno.EIO, "the disk has failed", path)

    def _check_fd(self, fd: int) -> None:
        if self.is_dead or self._host.failed:
            self._check(os.readlink(f"/proc/self/fd/{fd}"))

    def open(self, path: str, flags: int, mode: int = 0o644) -> int:
        self._check(path)
        return super().open(path, flags, mode)

    def pwrite(self, fd: int, data: Buffer, position: int, /) -> int:
        self._check_fd(fd)
        return super().pwrite(fd, data, position)

    def ftruncate(self, fd: int, size: int) -> None:
        self._check_fd(fd)
        super().ftruncate(fd, size)

    def fsync(self, fd: int) -> None:
        self._check_fd(fd)
        super().fsync(fd)

    def fsync_dir(self, path: str) -> None:
        self._check(path)
        super().fsync_dir(path)

    def rename(self, source: str, target: str) -> None:
        self._check(source)
        super().rename(source, target)

    def unlink(self, path: str) -> None:
        self._check(path)
        super().unlink(path)

    def mkdir(self, path: str) -> None:
        self._check(path)
        super().mkdir(path)

    def rmtree(self, path: str) -> None:
        if not self.is_dead:
            super().rmtree(path)
