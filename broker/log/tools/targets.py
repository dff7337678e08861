"""Find the logs at a path of the command line: a file, a partition's directory, or a tree with log directories."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kafkalog.storage import names
from kafkalog.storage.listing import listing

TOP_FILES = (*names.OFFSET_CHECKPOINTS, names.META_PROPERTIES, names.CLEAN_SHUTDOWN)
PARTITION_FILES = (names.LEADER_EPOCH_CHECKPOINT, names.PARTITION_METADATA)


class NotALogError(Exception):
    """There are no files of a log at a path; the message names it."""


@dataclass(frozen=True)
class PartitionDir:
    """Describe a partition's directory: the base offsets of its segments and the names of all of its files."""

    path: str
    bases: tuple[int, ...]
    files: frozenset[str]

    @property
    def name(self) -> str:
        return os.path.basename(os.path.abspath(self.path))

    @property
    def key(self) -> tuple[str, int] | None:
        """Topic and partition, from the directory's name."""
        return names.parse_partition_dir(self.name)

    @property
    def log_dir(self) -> str:
        """The log directory that holds it."""
        return os.path.dirname(os.path.abspath(self.path))

    def file(self, base: int, kind: str) -> str:
        """Return the path of a segment's file."""
        return os.path.join(self.path, names.segment_name(base, kind))


@dataclass
class Targets:
    """Hold the logs that were found; each list is in the order of the names. No directory is there twice."""

    log_dirs: list[str] = field(default_factory=list)
    partitions: list[PartitionDir] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    """Files that the user named."""
    _known: set[str] = field(default_factory=set)

    def is_new(self, path: str) -> bool:
        """Return whether the directory is asked about for the first time, under whichever of its names."""
        real = os.path.realpath(path)
        known = real in self._known
        self._known.add(real)
        return not known


def find(paths: Iterable[str]) -> Targets:
    """Find the files of logs at `paths`; trees are searched for log directories.

    Raises:
        NotALogError: there are no files of a log at one of the paths.
        OSError: a directory cannot be read.
    """
    targets = Targets()
    for path in paths:
        if not os.path.isdir(path):
            if not os.path.exists(path):
                raise NotALogError(f"{path}: No such file or directory")
            targets.files.append(path)
        elif not _search(path, targets, depth=0):
            raise NotALogError(f"{path}: neither a partition's directory nor one with partitions' directories in it")
    return targets


def _search(path: str, targets: Targets, depth: int) -> bool:
    files: list[str] = []
    directories: list[str] = []
    with os.scandir(path) as entries:
        for entry in entries:
            (directories if entry.is_dir(follow_symlinks=depth == 0) else files).append(entry.name)
    if any(is_segment_file(name) for name in files):
        if targets.is_new(path):
            targets.partitions.append(_partition(path, files))
        return True
    found = any(name in TOP_FILES for name in files)
    if found and targets.is_new(path):
        targets.log_dirs.append(path)
    for name in sorted(directories):
        # Hidden directories are backups of repairs, or belong to other programs.
        if not name.startswith("."):
            found |= _search(os.path.join(path, name), targets, depth + 1)
    return found


def _partition(path: str, files: list[str]) -> PartitionDir:
    return PartitionDir(path, tuple(segment.base for segment in listing(files).segments), frozenset(files))


def partition_at(path: str) -> PartitionDir:
    """List the partition's directory at `path` as it is now."""
    return _partition(path, [entry.name for entry in os.scandir(path) if not entry.is_dir()])


def is_segment_file(name: str) -> bool:
    """Return whether `name` is that of a segment's file or of a leftover of one."""
    return names.parse_segment_name(name) is not None


def is_in_use(log_dir: str) -> bool:
    """Return whether a running broker holds the lock of the log directory."""
    try:
        fd = os.open(os.path.join(log_dir, names.LOCK), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # Java uses POSIX locks, which flock does not see.
        return not (_free(fd, fcntl.flock) and _free(fd, _posix))
    finally:
        os.close(fd)


def _free(fd: int, lock: object) -> bool:
    try:
        lock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # type: ignore[operator]
    except OSError:
        return False
    return True


def _posix(fd: int, operation: int) -> None:
    fcntl.lockf(fd, operation)


def dump_files(found: Targets, *, with_identity: bool) -> Iterator[str]:
    """Return the files of partitions, of log directories and the files named, each in the order of the names.

    `with_identity` includes partition.metadata and meta.properties of directories.
    """
    wanted = PARTITION_FILES if with_identity else (names.LEADER_EPOCH_CHECKPOINT,)
    for partition in found.partitions:
        for name in sorted(partition.files):
            if (is_segment_file(name) and not name.endswith(names.LEFTOVERS)) or name in wanted:
                yield os.path.join(partition.path, name)
    for log_dir in found.log_dirs:
        for name in (*names.OFFSET_CHECKPOINTS, *((names.META_PROPERTIES,) if with_identity else ())):
            path = os.path.join(log_dir, name)
            if os.path.exists(path):
                yield path
    yield from found.files


__all__ = [
    "PARTITION_FILES", "TOP_FILES", "NotALogError", "PartitionDir", "Targets", "dump_files", "find", "is_in_use",
    "is_segment_file", "partition_at",
]  # fmt: skip
