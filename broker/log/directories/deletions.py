"""Directories of deleted partitions: renamed at once, safe from a power failure when forced, removed later."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from broker.log.files.file_ops import FileOps
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS
from kafkalog.protocol.errors import KafkaStorageError

TopicPartition = tuple[str, int]


class Deletions:
    """See the module. The loop's thread adds; a worker's may remove meanwhile.

    Args:
        fail: told the path of a log directory that cannot be forced to the device, and why.
    """

    def __init__(self, ops: FileOps, fail: Callable[[Path, str], None]) -> None:
        self._ops = ops
        self._fail = fail
        self._doomed: list[tuple[int, Path]] = []
        # Partitions whose directory was renamed without forcing that to the device, and to which new name.
        self._renamed: dict[Path, dict[TopicPartition, Path]] = {}

    def add(self, path: Path, when_ms: int) -> None:
        """Have the directory removed at that time."""
        self._doomed.append((when_ms, path))

    def renamed(self, key: TopicPartition, path: Path) -> None:
        """The partition's directory is ``path`` now, which is not on the device yet."""
        self._renamed.setdefault(path.parent, {})[key] = path

    def settle(self, key: TopicPartition, besides: Path) -> None:
        """Force the removal of a deleted partition's log from other log directories, before one is made here.

        Were it to come back in a power failure, one partition would lie in two directories.

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
        """Remove the directories whose time has come; returns how many. May be slow."""
        removed = 0
        # In place: the loop's thread may add some meanwhile.
        for entry in list(self._doomed):
            when, path = entry
            if when <= now_ms:
                self._doomed.remove(entry)
                self._ops.rmtree(str(path))
                removed += 1
        return removed
