"""Renaming a log's directory when the log is deleted, and switching the log to another directory when it was moved."""

from __future__ import annotations

from pathlib import Path

from broker.log.directories.partition_directory import PartitionDirectory
from broker.log.files.file_ops import FileOps
from broker.log.flusher import Flusher
from broker.log.leader_epoch_cache import LeaderEpochCache
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from broker.log.retention.log_remover import LogRemover
from broker.log.segment.segment_list import SegmentList
from broker.log.storage_errors import StorageErrors
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names


class DirectoryMove:
    """Rename or switch the directory of one log. On the event loop's thread."""

    __slots__ = ("_directory", "_epochs", "_errors", "_flusher", "_ops", "_producers", "_remover", "_segments")

    def __init__(
        self,
        directory: PartitionDirectory,
        segments: SegmentList,
        epochs: LeaderEpochCache,
        producers: ProducerStateManager,
        flusher: Flusher,
        remover: LogRemover,
        errors: StorageErrors,
        ops: FileOps,
    ) -> None:
        self._directory = directory
        self._segments = segments
        self._epochs = epochs
        self._producers = producers
        self._flusher = flusher
        self._remover = remover
        self._errors = errors
        self._ops = ops

    def rename_for_delete(self, kind: str = names.DELETE_DIR, *, sync: bool = True) -> Path:
        """Give the directory a name that marks it for removal, close the log to appends, and return the new path.

        With `kind` `names.STRAY_DIR` the name marks the log of an unknown topic, which is kept. Without `sync`
        the new name is safe once the caller has forced the parent directory to the device.

        Raises:
            KafkaStorageError: the disk failed.
        """
        target = self._directory.name_for_removal(kind)
        # Set this before the rename: a concurrent flush must not mistake missing files for a failed disk.
        self._flusher.leaving = True
        self._move_segments(target)
        try:
            self._ops.rename(str(self._directory.path), str(target))
        except OSError as error:
            self._flusher.leaving = False
            self._move_segments(self._directory.path)
            raise self._errors.report("delete", error) from error
        self._directory.path = target
        try:
            if sync:
                self._ops.fsync_dir(str(target.parent))
        except OSError as error:
            # Records that are appended from here on would be removed with the directory.
            self._errors.go_offline(f"cannot force its new name to the device: {error}")
            raise KafkaStorageError(f"Cannot delete {self._directory.label}: {error}") from error
        self._errors.offline = "it was deleted"
        self._remover.forget_deleted()
        for segment in self._segments.all:
            segment.release()
        return target

    def relocate(self, future: Path, epochs: list[tuple[int, int]]) -> Path:
        """Let the copy in `future`, which is in another log directory, be the log; return the old directory's path.

        `future` has copies of `Log.files`, which are on the device up to the recovery point, and these leader epochs.
        The caller holds `Log.flushes`, and forces both parent directories to the device afterwards.

        Raises:
            KafkaStorageError: the old directory could not be renamed.
            OSError: the new directory could not be renamed. The log is where it was; it is offline if not even that
                could be restored.
        """
        source = self._directory.path
        target = future.parent / source.name
        doomed = self._directory.name_for_removal()
        # Rename the old one first: if the process is killed in between, the next start takes the copy.
        try:
            self._ops.rename(str(source), str(doomed))
        except OSError as error:
            raise self._errors.report("move", error) from error
        try:
            self._ops.rename(str(future), str(target))
        except OSError:
            try:
                self._ops.rename(str(doomed), str(source))
            except OSError as error:
                self._errors.go_offline(f"cannot give {doomed} its name back: {error}")
            raise
        self._directory.moved_to(target)
        for segment in self._segments.all:
            segment.relocate(str(target))
        self._epochs.relocate(str(target / names.LEADER_EPOCH_CHECKPOINT), epochs)
        self._producers.relocate(str(target))
        # These files are in the old directory, which is removed.
        self._remover.forget_deleted()
        self._flusher.names_unsynced = True
        return doomed

    def _move_segments(self, directory: Path) -> None:
        for segment in self._segments.all:
            segment.move(str(directory))
