"""Opening the logs of all log directories when a broker starts.

Logs are opened in parallel, because recovery reads whole segments. The checkpoints of a directory, and whether its last
stop was clean, decide how much of its logs is checked. A directory that cannot be read, or that has a log which cannot
be repaired, goes offline; the others are served.

A lack of file descriptors does not mean that a disk has failed. Files of logs that are loaded already are closed to
make room. A log that finds no descriptor even so is loaded after all the others, when nothing else is opened.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from broker.log.directories.checkpoint_writer import CheckpointWriter
from broker.log.directories.deletions import Deletions
from broker.log.directories.log_dir import LogDir
from broker.log.directories.strays import Strays, read_stray
from broker.log.files.file_ops import NO_SPACE
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS, with_room
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.resources import LogResources
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names
from kafkalog.storage.checkpoints import CorruptCheckpointError

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]

FAILURES = (OSError, CorruptCheckpointError, RecordsError)
"""Errors that take a log directory offline while its logs are loaded."""


T = TypeVar("T")


class LoadingStoppedError(Exception):
    """The broker ends before all logs are loaded."""


class DuplicateLogError(Exception):
    """A partition was found in two log directories. One of them must be removed by hand."""


_Loaded = Log | Callable[[], Log]
"""A log; or what loads it, where there was no descriptor left for that."""


def _why(error: Exception) -> str:
    """Say why the logs of a directory cannot be loaded, and the remedy if it is known."""
    reason = f"cannot load its logs: {error}"
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        reason += ". Make room on its file system and start the broker again; nothing that was acknowledged is lost"
    if isinstance(error, OSError) and error.errno in OUT_OF_DESCRIPTORS:
        reason += ". Raise the limit of open files (ulimit -n) and start the broker again; nothing is lost"
    return reason


class _Rows(NamedTuple):
    """The offsets of partitions in the checkpoints of one log directory."""

    points: dict[TopicPartition, int]
    starts: dict[TopicPartition, int]
    watermarks: dict[TopicPartition, int]
    cleaned: dict[TopicPartition, int]


class LogLoader:
    """Load all logs of a broker. A loader is used once.

    Args:
        configs: settings of topics that have their own, by topic.
        default_config: settings of the other topics.
        checkpoints: learns which rows the checkpoint files have.
        deletions: gets the directories that were marked for removal.
        strays: gets the directories of replicas that are not in use.
        clock: milliseconds since the epoch.
        make_executor: makes the threads that recover the logs of one directory.
        fail: called with the path of a log directory that fails, and the reason; on any thread.
        is_stopped: whether the broker is to end. Asked before each log, on any thread.

    Attributes:
        unclean: the log directories whose last stop was not clean.
        lowered: whether a log ends before the recovery point or the cleaned offset that a checkpoint has of it.
    """

    def __init__(
        self,
        configs: Mapping[str, LogConfig],
        default_config: LogConfig,
        checkpoints: CheckpointWriter,
        deletions: Deletions,
        strays: Strays,
        *,
        clock: Callable[[], int],
        make_executor: Callable[[], Executor],
        resources: LogResources,
        fail: Callable[[Path, str], None],
        is_stopped: Callable[[], bool],
    ) -> None:
        self.unclean: set[Path] = set()
        self.lowered = False
        self._configs = configs
        self._default_config = default_config
        self._checkpoints = checkpoints
        self._deletions = deletions
        self._strays = strays
        self._clock = clock
        self._make_executor = make_executor
        self._resources = resources
        self._fail = fail
        self._is_stopped = is_stopped

    def load(self, directories: Sequence[LogDir], logs: dict[TopicPartition, Log]) -> None:
        """Open every partition in the log directories, and add the logs to `logs`, one directory after the other.

        Raises:
            DuplicateLogError: a partition lies in two directories.
            LoadingStoppedError: the broker is to end.
        """
        loading: list[tuple[LogDir, Iterator[_Loaded]]] = []
        done: list[tuple[LogDir, list[_Loaded]]] = []
        with ExitStack() as pools:
            for directory in directories:
                pool = pools.enter_context(self._make_executor())
                try:
                    loading.append((directory, self._begin(directory, pool)))
                except FAILURES as error:
                    self._fail(directory.path, _why(error))
            for directory, coming in loading:
                try:
                    done.append((directory, list(coming)))
                except FAILURES as error:
                    self._fail(directory.path, _why(error))
        for directory, results in done:
            try:
                loaded = [result if isinstance(result, Log) else self._with_room(result) for result in results]
            except FAILURES as error:
                self._fail(directory.path, _why(error))
                continue
            if loaded:
                logger.info("Loaded %d logs from %s", len(loaded), directory.path)
            for log in loaded:
                other = logs.setdefault((log.topic, log.partition), log)
                if other is not log:
                    raise DuplicateLogError(
                        f"Duplicate log directories for {log.topic}-{log.partition} are found in both {log.dir} "
                        f"and {other.dir}; remove one of them"
                    )

    def _with_room(self, act: Callable[[], T]) -> T:
        return with_room(self._resources.open_files, act)

    def _begin(self, directory: LogDir, pool: Executor) -> Iterator[_Loaded]:
        """Return an iterator that loads the logs of a directory; after an unclean stop the pool begins at once."""
        now_ms = self._clock()
        clean = self._with_room(directory.take_clean_shutdown)
        if not clean:
            self.unclean.add(directory.path)
            # Names that a killed process gave may not have reached the device.
            self._resources.ops.fsync_dir(str(directory.path))
        rows = _Rows(
            self._with_room(directory.read_recovery_points),
            self._with_room(directory.read_log_start_offsets),
            self._with_room(directory.read_high_watermarks),
            self._with_room(directory.read_cleaned_offsets),
        )
        self._checkpoints.note(LogDir.write_recovery_points, rows.points)
        self._checkpoints.note(LogDir.write_log_start_offsets, rows.starts)
        self._checkpoints.note(LogDir.write_high_watermarks, rows.watermarks)
        self._checkpoints.note(LogDir.write_cleaned_offsets, rows.cleaned)

        def load_or_put_off(found: tuple[str, TopicPartition]) -> _Loaded:
            attempt = partial(self._load, *found, rows, clean=clean, now_ms=now_ms)
            try:
                return self._with_room(attempt)
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                logger.warning("%s is loaded after the others: %s", found[0], error)
                return attempt

        found = self._with_room(lambda: list(self._partition_dirs(directory, now_ms)))
        # Threads help recovery, which waits for the disk. After a clean stop they would only take turns.
        if found:
            stop = "a clean stop" if clean else "a stop that was not clean: what may not be on the device is checked"
            logger.info("Loading %d logs from %s after %s", len(found), directory.path, stop)
        else:
            logger.info("There are no logs in %s", directory.path)
        return (map if clean else pool.map)(load_or_put_off, found)

    def _load(self, path: str, key: TopicPartition, rows: _Rows, *, clean: bool, now_ms: int) -> Log:
        if self._is_stopped():
            raise LoadingStoppedError
        config = self._configs.get(key[0], self._default_config)
        # A log that was compacted has gaps, even if the topic's policy has changed or, in a directory without a
        # registry, is not known.
        keeps_gaps = key in rows.cleaned and not config.compact
        log = Log.open(
            path,
            config.with_changes(cleanup_policy=(*config.cleanup_policy, "compact")) if keeps_gaps else config,
            clean=clean,
            log_start_offset=rows.starts.get(key, 0),
            recovery_point=rows.points.get(key, 0),
            now_ms=now_ms,
            resources=self._resources,
        )
        if keeps_gaps:
            log.config = config
        log.high_watermark = rows.watermarks.get(key, log.log_start_offset)
        log.cleaned_offset = rows.cleaned.get(key)
        if log.cleaned_offset is not None and log.cleaned_offset > log.log_end_offset:
            # As in Kafka, such an offset is not trusted. The row stays, because it says that there may be gaps.
            log.cleaned_offset = log.log_start_offset
            self.lowered = True
        log.when_offline(self._fail)
        if log.recovery_point < rows.points.get(key, 0):
            self.lowered = True
        return log

    def _partition_dirs(self, directory: LogDir, now_ms: int) -> Iterator[tuple[str, TopicPartition]]:
        with os.scandir(directory.path) as entries:
            found = sorted((entry.name, entry.path) for entry in entries if entry.is_dir())
        for name, path in found:
            key = names.parse_partition_dir(name)
            if key is None:
                logger.warning("Ignoring %s, which is not named topic-partition", path)
            elif name.endswith(names.DELETE_DIR):
                self._deletions.add(Path(path), now_ms)
            elif name.endswith(names.STRAY_DIR):
                stray = read_stray(Path(path))
                self._strays.add(Path(path), stray)
                reason = "" if stray is None else f": {stray.reason}"
                logger.warning("Ignoring %s, a replica that is not in use%s", path, reason)
            elif not name.endswith(names.FUTURE_DIR):
                yield path, key
