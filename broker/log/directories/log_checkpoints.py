"""The offset checkpoints of a broker's logs, each kind with the value that it stores of a log.

Each method may be called by several threads: `CheckpointWriter` writes one checkpoint after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from broker.log.directories.checkpoint_writer import CheckpointWriter, TopicPartition, Write
from broker.log.directories.log_dir import LogDir
from broker.log.log import Log
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names


class LogCheckpoints:
    """Write the checkpoints of the logs of one broker.

    Args:
        log_dirs: those that are offline are left out.
        logs: the logs in service; read at each call.
        fail: called with the path of a directory that cannot be written to, and with the reason.

    Attributes:
        writer: knows which rows the files have.
    """

    def __init__(
        self, log_dirs: list[LogDir], logs: Mapping[TopicPartition, Log], fail: Callable[[Path, str], None]
    ) -> None:
        self.writer = CheckpointWriter(log_dirs, fail)
        self._log_dirs = log_dirs
        self._logs = logs
        self._fail = fail

    def write_recovery_points(self) -> bool:
        """Write up to where each log is on the device; return whether every online log directory had room for it."""
        return self._write(LogDir.write_recovery_points, lambda log: log.recovery_point)

    def write_log_start_offsets(self) -> bool:
        """Write the log start offsets of the logs that begin within their first segment.

        Logs whose removed segments a power failure may bring back are included, because nothing has forced the removal
        to the device yet.
        """

        def value(log: Log) -> int | None:
            start = log.log_start_offset
            return start if start > log.segments[0].base_offset or (start and log.names_unsynced) else None

        return self._write(LogDir.write_log_start_offsets, value)

    def write_high_watermarks(self) -> bool:
        """Write the high watermark of each log."""
        return self._write(LogDir.write_high_watermarks, lambda log: log.high_watermark)

    def write_cleaned_offsets(self) -> bool:
        """Write up to where each compacted log was cleaned."""
        return self._write(LogDir.write_cleaned_offsets, lambda log: log.cleaned_offset)

    def write_all(self) -> bool:
        """Write every checkpoint; return whether every online log directory had room for all of them."""
        results = (
            self.write_recovery_points(), self.write_log_start_offsets(),
            self.write_high_watermarks(), self.write_cleaned_offsets(),
        )  # fmt: skip
        return all(results)

    def lower_recovery_points(self) -> None:
        """Write the recovery points after a log became shorter, and the cleaned offsets if one was lowered.

        An older, higher recovery point would vouch for records that are appended past the new end of the log. By an
        older cleaned offset the cleaner would take them for clean: it would remove a tombstone among them, and leave
        earlier records of its key.
        """
        self._lower_cleaned_offsets()
        if self.write_recovery_points():
            return
        for directory in self._log_dirs:
            if directory.offline is not None:
                continue
            try:
                # Removing the file needs no room. After a crash the logs are then checked from their beginning.
                directory.forget_recovery_points()
            except OSError as error:
                self._fail(directory.path, f"cannot remove {names.RECOVERY_POINT_CHECKPOINT}: {error}")

    def _lower_cleaned_offsets(self) -> None:
        lowered = [log for log in list(self._logs.values()) if log.offsets.has_lowered_cleaned]
        # Before the offsets are read: a truncation that comes meanwhile needs another write.
        for log in lowered:
            log.offsets.has_lowered_cleaned = False
        if lowered and not self.write_cleaned_offsets():
            for log in lowered:
                log.offsets.has_lowered_cleaned = True

    def forget(self, key: TopicPartition) -> None:
        """Rewrite the checkpoints if one has a row of a partition that has no log any more.

        Raises:
            KafkaStorageError: there is no room for it.
        """
        if not self.writer.mentions(key):
            return
        self.write_all()
        if self.writer.mentions(key):
            raise KafkaStorageError(f"Cannot create {key[0]}-{key[1]}: no space left for the checkpoints")

    def _write(self, write: Write, value: Callable[[Log], int | None]) -> bool:
        return self.writer.write(write, self._logs, value)
