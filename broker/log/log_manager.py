"""All the logs of a broker, over its log directories.

A partition lies in one log directory; a new one is made in the directory with the fewest partitions. Loading opens
every partition (`recovery.loading`). Shutting down closes every log and writes the checkpoints. A log directory gets
its clean-shutdown marker only if all went well there.

A log directory that fails goes offline with every log in it, while the others are served, as in Apache Kafka. At the
start it fails when it cannot be made, locked or read, or when one of its logs cannot be loaded. Later it fails when a
checkpoint cannot be written, or when it is unknown what the files of one of its logs hold. It stays offline until the
next start, and no log is made elsewhere for a partition that may lie in it.

The broker schedules the periodic work (`run_flushes`, `run_retention`, `checkpoints`) on its event loop or on a worker.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from uuid import UUID

from broker.log.alter_dirs.future_log import FutureLog
from broker.log.alter_dirs.futures import Futures
from broker.log.alter_dirs.startup import forget_moves, settle_moves
from broker.log.directories.deletions import Deletions
from broker.log.directories.log_checkpoints import LogCheckpoints
from broker.log.directories.log_dir import LogDir
from broker.log.directories.log_dirs import check_any_online, lock_all, mark_clean, unlock_all
from broker.log.directories.strays import Strays
from broker.log.files.file_ops import OS, FileOps
from broker.log.files.open_files import OpenFiles
from broker.log.files.out_of_descriptors import RoomMakingOps
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.recovery.loading import LogLoader
from broker.log.resources import LogResources
from broker.log.retention.retention_policy import TIME_AND_SIZE, RetentionPolicy
from kafkalog.protocol.errors import KafkaError, KafkaStorageError
from kafkalog.storage import names
from kafkalog.storage.properties import Stray

logger = logging.getLogger(__name__)

TopicPartition = tuple[str, int]


class LogManager:
    """Make, find, delete and flush the logs of one broker.

    Args:
        log_dirs: the log directories; they are made if they do not exist, and locked now.
        default_config: settings of topics that have none of their own.
        clock: milliseconds since the epoch.
        num_recovery_threads: how many partitions of each log directory are recovered at once.
        ops: the file operations.
        open_files: the budget of open files.
        seconds: a monotonic clock, called on any thread.
        make_lock: makes a lock of the workers that flush and move logs (`Workers.make_lock`).
        make_executor: makes an executor of so many threads and a name, for recovery (`Workers.executor`).
        on_directory_failure: called with the path of a log directory when it goes offline, on the thread that notices.

    Attributes:
        resources: what all the logs share.
        checkpoints: writes the offset checkpoints of all the logs.
        strays: the directories of replicas that are not in use any more.
        futures: the copies that moves to other log directories are making.
        log_dirs: all log directories, offline ones included.
        is_loaded: whether `load_all` has returned.

    Raises:
        LogDirLockedError: another broker uses one of the directories.
        LogDirUnusableError: none of them can be used, or one is named twice.
    """

    def __init__(
        self,
        log_dirs: Sequence[Path | str],
        default_config: LogConfig,
        *,
        clock: Callable[[], int],
        num_recovery_threads: int = 4,
        ops: FileOps = OS,
        open_files: OpenFiles | None = None,
        seconds: Callable[[], float] = time.monotonic,
        make_lock: Callable[[], AbstractContextManager[object]] = threading.Lock,
        make_executor: Callable[[int, str], Executor] = ThreadPoolExecutor,
        on_directory_failure: Callable[[Path], None] = lambda path: None,
    ) -> None:
        self.default_config = default_config
        self.retention_policy: RetentionPolicy = TIME_AND_SIZE
        self._clock = clock
        self._make_executor = partial(make_executor, max(1, num_recovery_threads), "log-recovery")
        open_files = open_files or OpenFiles()
        ops = RoomMakingOps(ops, open_files)
        self._ops = ops
        self.resources = LogResources(ops, open_files, seconds=seconds, make_lock=make_lock)
        self._begun: dict[TopicPartition, Path] = {}
        """The log directory in which a partition's log was begun but could not be completed. It is tried again there,
        because a partition has one place."""
        self._logs: dict[TopicPartition, Log] = {}
        self._counts: Counter[Path] = Counter()
        self._failing = threading.Lock()
        self._on_directory_failure = on_directory_failure
        self._unclean: set[Path] = set()
        self.is_loaded = False
        self._is_stopped = threading.Event()
        self.log_dirs = lock_all([Path(path).absolute() for path in log_dirs], ops)
        self.checkpoints = LogCheckpoints(self.log_dirs, self._logs, self.fail_directory)
        self._deletions = Deletions(ops, self.fail_directory)
        self.strays = Strays(ops, self._deletions)
        self.futures = Futures(ops, self._deletions, clock)

    @property
    def recovered(self) -> frozenset[TopicPartition]:
        """Partitions whose log was opened after an unclean stop; records that were not flushed may be gone."""
        return frozenset(key for key, log in self._logs.items() if log.log_dir in self._unclean)

    @property
    def online_dirs(self) -> list[LogDir]:
        """The log directories that are online, in the order of `log.dirs`."""
        return [directory for directory in self.log_dirs if directory.offline is None]

    @property
    def offline_dirs(self) -> list[LogDir]:
        """The log directories that have failed."""
        return [directory for directory in self.log_dirs if directory.offline is not None]

    def unlock(self) -> None:
        """Unlock the log directories after a failed start; `shutdown` does it after a successful one."""
        unlock_all(self.log_dirs)

    # -- identity --------------------------------------------------------------------------------------------

    def claim(self, cluster_id: str, broker_id: int) -> None:
        """Check that every log directory belongs to this cluster and broker; mark new ones as such.

        Raises:
            InconsistentClusterIdError: one belongs to another cluster or broker.
            LogDirUnusableError: none of them could be marked.
        """
        for directory in self.online_dirs:
            try:
                directory.claim(cluster_id, broker_id)
            except OSError as error:
                self.fail_directory(directory.path, f"cannot write {names.META_PROPERTIES}: {error}")
        check_any_online(self.log_dirs)

    def stored_cluster_id(self) -> str | None:
        """Return the cluster id with which a log directory is marked, or None if all are new."""
        found = (directory.identity().get("cluster.id") for directory in self.log_dirs)
        return next((cluster_id for cluster_id in found if cluster_id), None)

    def stored_broker_id(self) -> int | None:
        """Return the broker id with which a log directory is marked, or None if all are new."""
        found = (directory.identity().get("broker.id") for directory in self.log_dirs)
        return next((int(broker_id) for broker_id in found if broker_id and broker_id.isdigit()), None)

    # -- loading ---------------------------------------------------------------------------------------------

    def load_all(self, configs_by_topic: Mapping[str, LogConfig] | None = None) -> None:
        """Open every partition in the log directories.

        Raises:
            DuplicateLogError: a partition lies in two directories.
            LoadingStoppedError: `stop_loading` was called.
            LogDirUnusableError: there is no directory whose logs could be read or repaired.
        """
        offline = [directory.path for directory in self.offline_dirs]
        self.futures.found = settle_moves(self.online_dirs, offline, self._ops, self.fail_directory)
        loader = LogLoader(
            configs_by_topic or {},
            self.default_config,
            self.checkpoints.writer,
            self._deletions,
            self.strays,
            clock=self._clock,
            make_executor=self._make_executor,
            resources=self.resources,
            fail=self.fail_directory,
            is_stopped=self._is_stopped.is_set,
        )
        loader.load(self.online_dirs, self._logs)
        self._unclean |= loader.unclean
        self._counts = Counter(log.log_dir for log in self)
        check_any_online(self.log_dirs)
        if not self.offline_dirs:
            unclean = [str(log.dir) for log in self if log.log_dir in self._unclean]
            forget_moves(unclean, self._ops, self.fail_directory)
        if loader.lowered:
            self.checkpoints.lower_recovery_points()
            self.checkpoints.write_cleaned_offsets()
        self.is_loaded = True

    def stop_loading(self) -> None:
        """Have `load_all` end with the logs that it is opening now. Any thread may call this."""
        self._is_stopped.set()

    # -- the logs --------------------------------------------------------------------------------------------

    def get(self, topic: str, partition: int) -> Log | None:
        """Return the log of a partition, or None."""
        return self._logs.get((topic, partition))

    def holds(self, log: Log) -> bool:
        """Return whether `log` is still in service."""
        return self._logs.get((log.topic, log.partition)) is log

    def __len__(self) -> int:
        return len(self._logs)

    def __iter__(self) -> Iterator[Log]:
        return iter(list(self._logs.values()))

    def create(
        self,
        topic: str,
        partition: int,
        topic_id: UUID | None = None,
        config: LogConfig | None = None,
        *,
        is_new: bool = True,
    ) -> Log:
        """Return the log of a partition, and make it if there is none.

        Without `is_new` the partition may have had a log before. Then none is made while a log directory is offline
        that may hold it.

        Raises:
            InconsistentTopicIdError: the log exists under another topic id.
            KafkaStorageError: the disk failed, its log directory is offline, or all are.
        """
        found = self._logs.get((topic, partition))
        if found is not None:
            if found.offline is not None:
                raise KafkaStorageError(f"{topic}-{partition} is offline: {found.offline}")
            if topic_id is not None:
                found.assign_topic_id(topic_id)
            return found
        online = self.online_dirs
        if not online:
            raise KafkaStorageError("No log directory is online")
        if not is_new:
            self._check_nothing_is_missing(topic, partition)
        directory = self._place((topic, partition), online)
        self.checkpoints.forget((topic, partition))
        self._deletions.settle((topic, partition), besides=directory.path)
        if directory.offline is not None:
            raise KafkaStorageError(f"Cannot create {topic}-{partition}: {directory.path} is offline")
        try:
            log = Log.open(
                directory.path / names.partition_dir(topic, partition),
                config or self.default_config,
                clean=False,
                now_ms=self._clock(),
                topic_id=topic_id,
                resources=self.resources,
            )
        except OSError as error:
            self._begun[topic, partition] = directory.path
            raise KafkaStorageError(f"Cannot create {topic}-{partition} in {directory.path}: {error}") from error
        self._begun.pop((topic, partition), None)
        log.when_offline(self.fail_directory)
        self._logs[topic, partition] = log
        self._counts[log.log_dir] += 1
        if directory.offline is not None:
            # The directory failed on another thread before this log was registered, so the log was not informed.
            log.offline = directory.offline
            raise KafkaStorageError(f"Cannot create {topic}-{partition}: {directory.path} is offline")
        return log

    def _check_nothing_is_missing(self, topic: str, partition: int) -> None:
        """Check that a partition which may have had a log before can be made anew; warn that its records may be lost.

        Raises:
            KafkaStorageError: a log directory that may hold the log is offline.
        """
        if self.offline_dirs:
            offline = ", ".join(str(directory.path) for directory in self.offline_dirs)
            raise KafkaStorageError(
                f"Can not create log for {topic}-{partition} because log directories {offline} are offline"
            )
        if known := self.checkpoints.writer.known_offset((topic, partition)):
            logger.warning(
                "Creating %s-%d anew, empty: a checkpoint has records up to offset %d, but no log directory has its "
                "directory any more. If that was moved or not mounted, stop the broker before anything is written to "
                "the partition, put the directory back in place of the new one, and start again. Otherwise its records "
                "are lost, and its offsets begin at 0 again",
                topic, partition, known,
            )  # fmt: skip
        elif (topic, partition) not in self._begun:
            logger.warning(
                "Creating %s-%d anew, empty: no log directory has its directory, and no checkpoint has records of it. "
                "That is harmless if the broker stopped before it had made the partition. If the directory was moved "
                "or not mounted, stop the broker before anything is written to the partition, put the directory back "
                "in place of the new one, and start again",
                topic, partition,
            )  # fmt: skip

    def _place(self, key: TopicPartition, online: Sequence[LogDir]) -> LogDir:
        """Choose the directory of a new log: the requested one if it is online, else the one with the fewest logs."""
        preferred = self._begun.get(key) or self.futures.take_preferred(key)
        wanted = [directory for directory in online if directory.path == preferred]
        return min(wanted or online, key=lambda directory: self._counts[directory.path])

    def delete(self, topic: str, partition: int, *, sync: bool = True) -> None:
        """Delete a partition: rename its directory now, and remove it `file.delete.delay.ms` later.

        Without `sync` the new name is safe after `sync_directories`.

        Raises:
            KafkaStorageError: the disk failed; the log stays.
        """
        log = self._logs.get((topic, partition))
        if log is None:
            return
        if log.offline is not None:
            raise KafkaStorageError(f"{topic}-{partition} is offline: {log.offline}")
        delay = log.config.file_delete_delay_ms
        self.futures.cancel((topic, partition))
        path = log.rename_for_delete(sync=sync)
        if not sync:
            self._deletions.renamed((topic, partition), path)
        del self._logs[topic, partition]
        self._counts[log.log_dir] -= 1
        self._deletions.add(path, self._clock() + delay)

    def sync_directories(self) -> None:
        """Force the names of all partitions' directories to the device. Blocks: call it on a worker's thread.

        Raises:
            KafkaStorageError: the disk failed.
        """
        for directory in self.online_dirs:
            self._deletions.sync(directory.path)

    # -- moves to other log directories ----------------------------------------------------------------------

    @property
    def ops(self) -> FileOps:
        """The file operations, which make room when there is no descriptor left."""
        return self._ops

    def replace_by_future(self, future: FutureLog, epochs: list[tuple[int, int]]) -> Path:
        """Let a log be the copy that a move has made; return the new path of the log's old directory.

        The checkpoints of both log directories have rows of the log until the caller resets `log.also_in`, once the
        names are safe.

        Raises:
            KafkaStorageError, OSError: as `Log.relocate` does.
        """
        log, source = future.log, future.log.log_dir
        doomed = log.relocate(future.dir, epochs)
        log.also_in = source
        self._counts[source] -= 1
        self._counts[log.log_dir] += 1
        self._deletions.renamed((log.topic, log.partition), doomed)
        self.futures.done(future)
        return doomed

    def sync_directory(self, path: Path) -> None:
        """Force the names of the partitions' directories in one log directory to the device. Blocks.

        Raises:
            KafkaStorageError: the disk failed, and the log directory with it.
        """
        self._deletions.sync(path)

    def remove_later(self, path: Path, delay_ms: int) -> None:
        """Schedule the removal of a directory that was renamed."""
        self._deletions.add(path, self._clock() + delay_ms)

    # -- removing --------------------------------------------------------------------------------------------

    def set_aside(
        self, topic: str, partition: int, why: str = "it belongs to no known topic", stray: Stray | None = None
    ) -> None:
        """Take a log out of service and keep it; its directory is renamed to `…-stray`.

        Args:
            why: the reason, for the broker's log.
            stray: what `mark_stray` has written into the directory before. Then the new name is safe after
                `sync_directories`, else at once.

        Raises:
            KafkaStorageError: the disk failed; the log stays.
        """
        log = self._logs.get((topic, partition))
        if log is None:
            return
        self.futures.cancel((topic, partition))
        path = log.rename_for_delete(names.STRAY_DIR, sync=stray is None)
        if stray is not None:
            self._deletions.renamed((topic, partition), path)
        del self._logs[topic, partition]
        self._counts[log.log_dir] -= 1
        self.strays.add(path, stray)
        logger.warning("%s-%d is not in use: %s. Its log is kept as %s", topic, partition, why, path)

    @property
    def has_deletions(self) -> bool:
        """Return whether `run_deletions` has anything to do, now or later."""
        return self.resources.chores.deletions or self._deletions.has_any

    def run_deletions(self, now_ms: int) -> int:
        """Remove the files of deleted segments and partitions whose time has come; return how many. May be slow."""
        self.resources.chores.deletions = False
        removed = 0
        for log in self:
            if log.offline is not None:
                continue
            try:
                removed += log.remove_deleted(now_ms)
            except OSError as error:
                logger.error("Cannot remove deleted segments of %s: %s", log.dir, error)
        return removed + self._deletions.run(now_ms)

    # -- periodic work ---------------------------------------------------------------------------------------

    def apply_retention(self, log: Log, now_ms: int, most: int | None = None) -> int:
        """Remove the segments that retention does not keep, the oldest `most` of them; return how many.

        Errors are logged.
        """
        try:
            return len(log.apply_retention(now_ms, self.retention_policy, most))
        except KafkaError as error:
            logger.error("Retention: %s", error)
        except Exception:
            logger.exception("The retention policy failed for %s; none of its segments is deleted", log.dir)
        return 0

    def run_flushes(self, now_ms: int) -> int:
        """Flush the logs for which a flush is due; return how many. Blocks: call it on a worker's thread."""
        self.resources.chores.flushes = False
        flushed = 0
        for log in self:
            try:
                flushed += log.flush_if_due(now_ms)
            except KafkaError as error:
                logger.error("Flush: %s", error)
        return flushed

    def fail_directory(self, path: Path, reason: str) -> None:
        """Take a log directory and every log in it offline. Call it on any thread; the first reason stays."""
        with self._failing:
            directory = next((item for item in self.online_dirs if item.path == path), None)
            if directory is None:
                return
            directory.offline = reason
        logger.error("Stopping serving logs in dir %s: %s", path, reason)
        for log in self:
            if log.log_dir == path and log.offline is None:
                log.offline = reason
        self.futures.fail(path)
        self._on_directory_failure(path)

    def shutdown(self, *, after_unclean: bool = True) -> bool:
        """Close every log, write checkpoints and clean-shutdown markers, and unlock; return whether all went well.

        Without `after_unclean`, a directory whose last stop was not clean gets no marker.
        """
        dirty: set[Path] = set() if after_unclean else set(self._unclean)
        for log in self:
            try:
                log.close()
            except (KafkaError, OSError) as error:
                logger.error("Not closed cleanly: %s", error)
                dirty.add(log.log_dir)
        self.checkpoints.write_recovery_points()
        self.checkpoints.write_log_start_offsets()
        self.checkpoints.write_high_watermarks()
        clean = mark_clean(self.log_dirs, dirty)
        self.unlock()
        self._logs.clear()
        return clean
