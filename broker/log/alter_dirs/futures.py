"""All moves under way, by partition, and the log directories that were requested for partitions yet to be made."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path

from broker.log.alter_dirs.future_log import FutureLog
from broker.log.directories.deletions import Deletions
from broker.log.files.file_ops import FileOps
from kafkalog.storage import names

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]

MAX_PREFERRED = 10_000
"""The most partitions without a log here whose log directory is remembered; the oldest are forgotten."""


class Futures:
    """Keep the moves that are under way.

    Used on the event loop's thread; any thread may read, and may end the moves of a failed log directory.

    Attributes:
        found: future directories that the start found and whose moves have not been resumed.
    """

    def __init__(self, ops: FileOps, deletions: Deletions, clock: Callable[[], int]) -> None:
        self.found: dict[TopicPartition, Path] = {}
        self._ops = ops
        self._deletions = deletions
        self._clock = clock
        self._futures: dict[TopicPartition, FutureLog] = {}
        self._preferred: OrderedDict[TopicPartition, Path] = OrderedDict()

    def __iter__(self) -> Iterator[FutureLog]:
        return iter(list(self._futures.values()))

    def get(self, key: TopicPartition) -> FutureLog | None:
        """Return the copy that is to take the place of the partition's log, or None."""
        return self._futures.get(key)

    def add(self, future: FutureLog) -> None:
        """Note that a move has begun."""
        self._futures[future.log.topic, future.log.partition] = future
        future.log.being_moved = True

    def done(self, future: FutureLog) -> None:
        """Note that the copy has taken its log's place."""
        self._end(future)

    def interrupt(self, future: FutureLog) -> None:
        """End a move. Its files stay for the next start, unless another move is requested before."""
        self._end(future)
        self.found[future.log.topic, future.log.partition] = future.dir

    def cancel(self, key: TopicPartition) -> None:
        """End the move of a partition, if there is one, and remove its files."""
        future = self._futures.get(key)
        if future is not None:
            self._end(future)
            self.discard(key, future.dir)
        if (path := self.found.pop(key, None)) is not None:
            self.discard(key, path)

    def fail(self, log_dir: Path) -> None:
        """End the moves to and from a log directory that has failed. Their files stay for the next start."""
        for future in self:
            if log_dir in (future.log_dir, future.log.log_dir):
                self._end(future)

    def discard(self, key: TopicPartition, path: Path, kind: str = names.DELETE_DIR) -> None:
        """Rename a future directory, to be removed or, with `names.STRAY_DIR`, to be kept. Errors are logged."""
        doomed = path.parent / names.delete_dir(*key, kind)
        try:
            self._ops.rename(str(path), str(doomed))
        except OSError as error:
            logger.error("Cannot rename %s for removal: %s", path, error)
            return
        if kind == names.DELETE_DIR:
            self._deletions.add(doomed, self._clock())

    def _end(self, future: FutureLog) -> None:
        future.ended.set()
        if self._futures.pop((future.log.topic, future.log.partition), None) is not None:
            future.log.being_moved = False

    # -- partitions that are yet to be made --------------------------------------------------------------------------

    def prefer(self, key: TopicPartition, log_dir: Path) -> None:
        """Remember until the next start where the partition's log is to be made."""
        self._preferred[key] = log_dir
        self._preferred.move_to_end(key)
        if len(self._preferred) > MAX_PREFERRED:
            self._preferred.popitem(last=False)

    def take_preferred(self, key: TopicPartition) -> Path | None:
        """Return and forget the log directory in which the partition's log is to be made, or None."""
        return self._preferred.pop(key, None)
