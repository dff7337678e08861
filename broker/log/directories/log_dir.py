"""One log directory: its lock, its identity, its checkpoint files and its clean-shutdown marker.

Files at its top, beside the partitions' directories::

    .lock                             locked by the broker that uses the directory, with flock and as by Apache Kafka
    meta.properties                   version, cluster.id, broker.id
    recovery-point-offset-checkpoint  per partition, everything before it is on the device
    log-start-offset-checkpoint       per partition, where it begins, if that is not its first segment
    replication-offset-checkpoint     per partition, the high watermark
    cleaner-offset-checkpoint         per compacted partition, up to where it was cleaned
    .kafka_cleanshutdown              left by a clean stop, removed at the start
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from struct import Struct

from broker.log.directories import checkpoints
from broker.log.files.file_ops import OS, FileOps, make_directories
from kafkalog.storage import names
from kafkalog.storage.checkpoints import CorruptCheckpointError, can_have_a_row

logger = logging.getLogger(__name__)

WITHOUT = {
    names.RECOVERY_POINT_CHECKPOINT: "Every log in this directory is checked from its beginning",
    names.LOG_START_CHECKPOINT: "Records that clients deleted may be back",
    names.HIGH_WATERMARK_CHECKPOINT: "It is written anew",
    names.CLEANER_CHECKPOINT: "Compacted logs are compacted again from their beginning",
}
"""Consequences of a damaged checkpoint file, by name."""

WITHOUT_A_ROW = {
    names.RECOVERY_POINT_CHECKPOINT: "A log that has no row is checked from its beginning",
    names.LOG_START_CHECKPOINT: "Records that clients deleted may be back in a partition that has no row",
    names.HIGH_WATERMARK_CHECKPOINT: "Rows that are missing are written anew",
    names.CLEANER_CHECKPOINT: "A compacted log that has no row is compacted again from its beginning",
}
"""Consequences of damaged rows of a checkpoint file, by name."""

_WHOLE_FILE = Struct("hhqqi4x").pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""Linux's `struct flock` for a lock of all bytes."""
SHOWN = 3
"""The number of damaged rows of a checkpoint file that are logged one by one."""

Offsets = Mapping[tuple[str, int], int]


class LogDirLockedError(Exception):
    """Another process, or another log manager in this process, uses the log directory."""


class LogDirUnusableError(Exception):
    """The log directory cannot be made, read or written to, or its `meta.properties` cannot be read."""


class InconsistentClusterIdError(Exception):
    """The log directory belongs to another cluster or broker."""


def _lock_as_java(fd: int) -> None:
    """Take the record lock that Apache Kafka takes (Java's `FileChannel.tryLock`), which does not see `flock`.

    The lock of a process ends as soon as it closes any descriptor of the file. So it is one of the open file where the
    system has that.

    Raises:
        OSError: Another process has it (EACCES, EAGAIN), or the file system has no locks.
    """
    if hasattr(fcntl, "F_OFD_SETLK"):
        fcntl.fcntl(fd, fcntl.F_OFD_SETLK, _WHOLE_FILE)
    else:
        fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)


class LogDir:
    """Lock and use one log directory, which is made if it does not exist.

    Attributes:
        path: the directory.
        offline: why the directory is out of service, or None.

    Raises:
        LogDirLockedError: somebody else uses it; the message names it.
        LogDirUnusableError: it cannot be made, read or written to; the message names it.
    """

    def __init__(self, path: Path, ops: FileOps = OS) -> None:
        self.path = path
        self.offline: str | None = None
        self._ops = ops
        self._lock_fd = -1
        self._identity: dict[str, str] = {}
        self._told: set[str] = set()
        try:
            make_directories(ops, str(path))
            self._lock_fd = self._lock()
            os.listdir(path)
            self._identity = checkpoints.read_meta_properties(str(path))
        except (OSError, UnicodeDecodeError) as error:
            self.unlock()
            what = error.strerror or str(error) if isinstance(error, OSError) else f"{names.META_PROPERTIES}: {error}"
            if isinstance(error, OSError) and str(error.filename or "").endswith(names.META_PROPERTIES):
                what = f"{names.META_PROPERTIES}: {what}"
            raise LogDirUnusableError(
                f"log.dirs: cannot use the directory {path}: {what}. Name one that this user can create and write in"
            ) from error

    @classmethod
    def broken(cls, path: Path, reason: str) -> LogDir:
        """Return a log directory that is offline from the start; it is neither locked nor read."""
        directory = cls.__new__(cls)
        directory.path = path
        directory.offline = reason
        directory._lock_fd = -1
        directory._identity = {}
        directory._told = set()
        return directory

    def _lock(self) -> int:
        path = self.path / names.LOCK
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _lock_as_java(fd)
        except OSError as error:
            os.close(fd)
            if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                raise LogDirLockedError(
                    f"Failed to acquire lock on file .lock in {self.path}: another broker is using this directory"
                ) from error
            raise
        return fd

    def unlock(self) -> None:
        """Let another broker use the directory."""
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # -- identity --------------------------------------------------------------------------------------------

    def identity(self) -> dict[str, str]:
        """Return the keys of `meta.properties`; empty for a directory that was never used."""
        return self._identity

    def claim(self, cluster_id: str, broker_id: int) -> None:
        """Check that the directory belongs to this broker; mark a new directory as this broker's.

        Raises:
            InconsistentClusterIdError: it belongs to another cluster or broker.
            OSError: `meta.properties` could not be written.
        """
        found = self._identity
        wanted = {"version": "0", "broker.id": str(broker_id), "cluster.id": cluster_id}
        for key in ("cluster.id", "broker.id"):
            if key in found and found[key] != wanted[key]:
                raise InconsistentClusterIdError(
                    f"{self.path / names.META_PROPERTIES} says {key}={found[key]}, but this broker has {wanted[key]}"
                )
        if not found:
            checkpoints.write_meta_properties(str(self.path), wanted, self._ops)
            self._identity = wanted

    # -- checkpoints -----------------------------------------------------------------------------------------

    def read_recovery_points(self) -> dict[tuple[str, int], int]:
        """Read the recovery points; empty if the file is damaged, so that everything is checked."""
        return self._read(names.RECOVERY_POINT_CHECKPOINT)

    def read_log_start_offsets(self) -> dict[tuple[str, int], int]:
        """Read the log start offsets beyond the first segment's base offset; empty if the file is damaged."""
        return self._read(names.LOG_START_CHECKPOINT)

    def read_high_watermarks(self) -> dict[tuple[str, int], int]:
        """Read the high watermarks; empty if the file is damaged."""
        return self._read(names.HIGH_WATERMARK_CHECKPOINT)

    def read_cleaned_offsets(self) -> dict[tuple[str, int], int]:
        """Read up to where logs were cleaned; empty, as if none was ever cleaned, if the file is damaged."""
        return self._read(names.CLEANER_CHECKPOINT)

    def write_recovery_points(self, offsets: Offsets) -> None:
        """Write the recovery points.

        Raises:
            OSError: they cannot be written.
        """
        self._write(names.RECOVERY_POINT_CHECKPOINT, offsets)

    def forget_recovery_points(self) -> None:
        """Remove the recovery points, on the device too.

        Raises:
            OSError: the file cannot be removed, or the directory not be forced.
        """
        self._ops.unlink(str(self.path / names.RECOVERY_POINT_CHECKPOINT))
        self._ops.fsync_dir(str(self.path))

    def write_log_start_offsets(self, offsets: Offsets) -> None:
        """Write the log start offsets.

        Raises:
            OSError: they cannot be written.
        """
        self._write(names.LOG_START_CHECKPOINT, offsets)

    def write_high_watermarks(self, offsets: Offsets) -> None:
        """Write the high watermarks.

        Raises:
            OSError: they cannot be written.
        """
        self._write(names.HIGH_WATERMARK_CHECKPOINT, offsets)

    def write_cleaned_offsets(self, offsets: Offsets) -> None:
        """Write the cleaned offsets.

        Raises:
            OSError: they cannot be written.
        """
        self._write(names.CLEANER_CHECKPOINT, offsets)

    def take_clean_shutdown(self) -> bool:
        """Return whether the last stop was clean, and remove the marker."""
        return checkpoints.take_clean_shutdown(str(self.path), self._ops)

    def write_clean_shutdown(self) -> None:
        """Write the clean-shutdown marker.

        Raises:
            OSError: it cannot be written.
        """
        checkpoints.write_clean_shutdown(str(self.path), ops=self._ops)

    def _read(self, name: str) -> dict[tuple[str, int], int]:
        path = str(self.path / name)
        try:
            offsets, problems = checkpoints.salvage_offsets(path)
        except CorruptCheckpointError as error:
            logger.warning("Ignoring a checkpoint file: %s. %s", error, WITHOUT[name])
            return {}
        if problems:
            logger.warning(
                "Using only the %d valid rows of the checkpoint file %s: %s. %s",
                len(offsets), path, "; ".join(problems[:SHOWN]), WITHOUT_A_ROW[name],
            )  # fmt: skip
        return offsets

    def _write(self, name: str, offsets: Offsets) -> None:
        unfit = {topic for topic, _ in offsets if not can_have_a_row(topic)}
        if unfit:
            offsets = {key: offset for key, offset in offsets.items() if key[0] not in unfit}
            if told := unfit - self._told:
                self._told |= told
                logger.warning(
                    "Leaving the topics %s out of the checkpoints of %s: their names cannot be written in a row. Their "
                    "logs are checked from their beginning at each start, and records that clients deleted from them "
                    "come back then. Copy the records that you need into other topics, and delete these topics",
                    ", ".join(map(repr, sorted(told))), self.path,
                )  # fmt: skip
        checkpoints.write_offsets(str(self.path / name), offsets, self._ops)
