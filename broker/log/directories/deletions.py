"""Directories of deleted partitions: they are renamed at once, forced to the device in batches, and removed later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from broker.log.files.file_ops import FileOps
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS
from kafkalog.protocol.errors import KafkaStorageError

TopicPartition = tuple[str, int]


class Deletions:
    """Remove directories of deleted partitions. The event loop's thread adds them; a worker's may remove meanwhile.

    Args:
        fail: called with the path of a log directory that cannot be forced to the device, and with the reason.
    """

    def __init__(self, ops: FileOps, fail: Callable[[Path, str], None]) -> None:
        self._ops = ops
        self._fail = fail
        self._doomed: list[tuple[int, Path]] = []
        self._renamed: dict[Path, dict[TopicPartition, Path]] = {}
        """By log directory, the partitions whose directory was renamed, but not yet on the device, with the new
        paths."""

    @property
    def has_any(self) -> bool:
        """Return whether a directory waits for its removal."""
        return bool(self._doomed)

    def add(self, path: Path, when_ms: int) -> None:
        """Schedule the removal of a directory at a time in milliseconds since the epoch."""
        self._doomed.append((when_ms, path))

    def renamed(self, key: TopicPartition, path: Path) -> None:
        """Note that the partition's directory was renamed to `path`, which is not on the device yet."""
        self._renamed.setdefault(path.parent, {})[key] = path

    def settle(self, key: TopicPartition, besides: Path) -> None:
        """Force the renames of a deleted partition in all log directories but `besides`, where it is made anew.

        If a power failure undid such a rename, the partition would lie in two directories.

        Raises:
            KafkaStorageError: the disk failed.
        """
        for path, renamed in list(self._renamed.items()):
            if path != besides and key in renamed:
                self.sync(path)

    def sync(self, log_dir: Path) -> None:
        """Force the new names in a log directory to the device. Blocks.

        Raises:
            KafkaStorageError: the disk failed.
        """
        renamed = self._renamed.get(log_dir, {})
        covered = dict(renamed)
        try:
            self._ops.fsync_dir(str(log_dir))
        except OSError as error:
            if error.errno not in OUT_OF_DESCRIPTORS:
                self._fail(log_dir, f"cannot force it to the device: {error}")
            raise KafkaStorageError(f"Cannot force {log_dir} to the device: {error}") from error
        for key, target in covered.items():
            if renamed.get(key) == target:
                del renamed[key]

    def run(self, now_ms: int) -> int:
        """Remove the directories whose time has come; return how many. May be slow."""
        removed = 0
        # Change the list in place, because the event loop's thread may add to it meanwhile.
        for entry in list(self._doomed):
            when, path = entry
            if when <= now_ms:
                self._doomed.remove(entry)
                self._ops.rmtree(str(path))
                removed += 1
        return removed
