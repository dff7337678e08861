"""The log cleaner: each of its threads cleans the dirtiest log, and then the next one.

The event loop chooses the log, a thread of the cleaner's own cleans it, and the event loop puts the new segments in
place. So there is no lock, and the loop never waits. Before a segment is replaced, the records that made others
obsolete are on the device, and the recovery point after them is written. So a power failure cannot remove the latest
record of a key after the older ones were cleaned away.

A log that cannot be cleaned (because of a damaged segment or a failing disk) is logged once and left alone until the
next start; the others are cleaned. When the disk is full, or descriptors or memory run out, the cleaning is tried
again later, after the other logs that are due.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Callable, Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from broker.log.cleaner.cleaner_config import CleanerConfig
from broker.log.cleaner.job import CleaningAbortedError, CleaningJob, CleaningStats, facts_of, make_job, unread
from broker.log.cleaner.selection import Cleanable, examine, filthiest
from broker.log.cleaner.throttle import Throttle
from broker.log.files.file_ops import OS, FileOps
from broker.log.files.out_of_descriptors import OUT_OF_DESCRIPTORS
from broker.log.log import Log
from broker.log.log_manager import LogManager
from broker.log.read.segment_times import Unread, read_unread
from broker.log.retention.retention_turns import retain
from broker.log.segment.segment import Segment
from broker.system import compiler_pages
from broker.system.workers import NoThreadError, Workers, start_thread
from kafkalog.protocol.errors import KafkaStorageError

logger = logging.getLogger(__name__)

MAX_THREADS = 64
MEGABYTE = 1 << 20
_PASSING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.ENOMEM, *OUT_OF_DESCRIPTORS})
"""Errors of a lack that may pass: of room on the disk, of memory, or of descriptors."""
_YIELD_EVERY = 64
"""The number of logs that are examined before other work gets its turn on the event loop."""


@dataclass(slots=True)
class CleanerMetrics:
    """Hold the cleaner's metrics, which have Kafka's names. The last cleaning of each thread counts."""

    last: dict[int, CleaningStats] = field(default_factory=dict)
    delays_ms: dict[int, int] = field(default_factory=dict)
    dead_thread_count: int = 0
    """The metric `kafka.log:type=LogCleaner,name=DeadThreadCount`."""
    dirtiest_ratio: float = 0.0
    last_run_ms: int = 0

    def forget(self, thread: int) -> None:
        """Let a thread that has ended count no more."""
        self.last.pop(thread, None)
        self.delays_ms.pop(thread, None)

    @property
    def max_buffer_utilization_percent(self) -> int:
        """The metric `kafka.log:type=LogCleaner,name=max-buffer-utilization-percent`."""
        return int(100 * max((stats.buffer_utilization for stats in list(self.last.values())), default=0))

    @property
    def cleaner_recopy_percent(self) -> int:
        """The metric `kafka.log:type=LogCleaner,name=cleaner-recopy-percent`."""
        last = list(self.last.values())
        return int(100 * sum(stats.bytes_written for stats in last) / max(sum(stats.bytes_read for stats in last), 1))

    @property
    def max_clean_time_secs(self) -> int:
        """The metric `kafka.log:type=LogCleaner,name=max-clean-time-secs`."""
        return int(max((stats.seconds for stats in list(self.last.values())), default=0))

    @property
    def max_compaction_delay_secs(self) -> int:
        """The metric `kafka.log:type=LogCleaner,name=max-compaction-delay-secs`."""
        return max(self.delays_ms.values(), default=0) // 1000

    @property
    def max_dirty_percent(self) -> int:
        """The metric `kafka.log:type=LogCleanerManager,name=max-dirty-percent`."""
        return int(100 * self.dirtiest_ratio)


class LogCleaner:
    """Run the cleaner's threads. Call `start` and `stop` on the event loop's thread.

    Args:
        workers: provides the cleaner's own threads.
        config: returns the settings in force; called each time.
        clock: milliseconds since the epoch.
    """

    def __init__(
        self,
        logs: LogManager,
        loop: asyncio.AbstractEventLoop,
        workers: Workers,
        config: Callable[[], CleanerConfig],
        clock: Callable[[], int],
        ops: FileOps = OS,
    ) -> None:
        self.metrics = CleanerMetrics(last_run_ms=clock())
        self._logs = logs
        self._loop = loop
        self._config = config
        self._clock = clock
        self._ops = ops
        self._throttle = Throttle(config().io_max_bytes_per_second, logs.resources.seconds)
        self._stopping = asyncio.Event()
        self._uncleanable: dict[Log, int] = {}
        """Logs whose cleaning has failed, with the bytes that could be cleaned when they were examined last."""
        self._tried: set[Log] = set()
        """Logs that others are cleaned before. It is empty until a cleaning fails that is tried again. From then on it
        has that log and those that are chosen later, until every log that is due has been tried once."""
        self._threads: dict[int, asyncio.Task[None]] = {}
        self._supervisor: asyncio.Task[None] | None = None
        self._pool = workers.pool(MAX_THREADS, "kafkalog-cleaner")

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the cleaner, unless `log.cleaner.enable` is off."""
        if self._config().enabled:
            self._supervisor = self._loop.create_task(self._supervise())

    async def stop(self) -> None:
        """Stop the cleaner. A cleaning under way ends soon; segments that it has replaced stay in place."""
        self._stopping.set()
        tasks = [*self._threads.values(), *([self._supervisor] if self._supervisor else [])]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._pool.close(wait=False)

    async def _supervise(self) -> None:
        """Keep as many threads as are configured. The number may change while the broker runs."""
        while not self._stopping.is_set():
            config = self._config()
            self._throttle.rate = config.io_max_bytes_per_second
            for number in range(min(config.threads, MAX_THREADS)):
                if number not in self._threads:
                    self._threads[number] = self._loop.create_task(self._run(number))
            await self._pause(config.backoff_ms)

    async def _pause(self, milliseconds: int) -> None:
        # Even without a backoff, other work gets its turn.
        try:
            await asyncio.wait_for(self._stopping.wait(), max(milliseconds / 1000, 0.001))
        except TimeoutError:
            return

    async def _run(self, number: int) -> None:
        try:
            while not self._stopping.is_set() and number < self._config().threads:
                try:
                    cleaned = await self._clean_filthiest(number)
                except NoThreadError as error:
                    logger.error("Log cleaner thread %d cannot work now; retrying later: %s", number, error)
                    cleaned = False
                if not cleaned:
                    await self._pause(self._config().backoff_ms)
            del self._threads[number]
            self.metrics.forget(number)
        except Exception:
            # The entry stays, so that no other thread takes its place: as in Kafka, a dead thread shows in the metrics.
            self.metrics.dead_thread_count += 1
            logger.exception("Log cleaner thread %d died", number)

    # -- choosing --------------------------------------------------------------------------------------------

    def is_uncleanable(self, log: Log) -> bool:
        """Return whether cleaning the log has failed."""
        return log in self._uncleanable

    def uncleanable_partitions_count(self, directory: Path) -> int:
        """Return the metric `uncleanable-partitions-count` of Kafka's LogCleanerManager for a log directory."""
        return sum(log.log_dir == directory for log in list(self._uncleanable))

    def uncleanable_bytes(self, directory: Path) -> int:
        """Return the metric `uncleanable-bytes` of Kafka's LogCleanerManager for a log directory; on any thread."""
        # Only numbers are read: a segment's indexes belong to the event loop.
        sizes = [(log, size) for log, size in list(self._uncleanable.items()) if self._is_in_service(log)]
        return sum(size for log, size in sizes if log.log_dir == directory)

    @staticmethod
    def _is_in_service(log: Log) -> bool:
        return log.offline is None and not log.being_moved

    def time_since_last_run_ms(self) -> int:
        """Return the metric `kafka.log:type=LogCleanerManager,name=time-since-last-run-ms`."""
        return self._clock() - self.metrics.last_run_ms

    def _may_be_cleaned(self, log: Log) -> bool:
        free = self._is_in_service(log) and not log.being_cleaned
        wanted = log.config.compact and not log.config.is_held
        return wanted and free and log not in self._uncleanable

    async def _grab(self, number: int) -> tuple[Log, Cleanable] | None:
        """Choose the log to clean next, and mark it as being cleaned.

        The examination that is returned is that of this moment: the caller makes the job before it awaits anything.
        """
        now_ms = self._clock()
        self.metrics.last_run_ms = now_ms
        await self._examine_uncleanable(now_ms)
        found = await self._examine_all(now_ms)
        self.metrics.dirtiest_ratio = max((cleanable.ratio for _, cleanable in found), default=0.0)
        self.metrics.delays_ms[number] = max((cleanable.compaction_delay_ms for _, cleanable in found), default=0)
        return self._choose(found, now_ms)

    def _choose(self, found: list[tuple[Log, Cleanable]], now_ms: int) -> tuple[Log, Cleanable] | None:
        """Mark the dirtiest log that is due as being cleaned; one of those in `_tried` only if no other is due."""
        first = [each for each in found if each[0] not in self._tried]
        last = [each for each in found if each[0] in self._tried]
        for candidates in (first, last):
            while (index := filthiest([cleanable for _, cleanable in candidates])) is not None:
                log, _ = candidates.pop(index)
                # It may have been truncated, or lost its beginning, since it was examined.
                cleanable = self._examine(log, now_ms)
                if cleanable is not None and cleanable.is_due:
                    log.being_cleaned = True
                    if self._tried:
                        self._tried.add(log)
                    return log, cleanable
            # Every log that is due has been tried.
            self._tried.clear()
        return None

    async def _examine_all(self, now_ms: int) -> list[tuple[Log, Cleanable]]:
        """Examine the logs that may be cleaned. They may change meanwhile."""
        found: list[tuple[Log, Cleanable]] = []
        reset = False
        looked_at = 0
        for log in self._logs:
            if not self._may_be_cleaned(log):
                continue
            looked_at += 1
            if looked_at % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
            await self._read_times(log, now_ms)
            if self._stopping.is_set():
                return []
            # It may have been deleted meanwhile.
            cleanable = self._examine(log, now_ms) if self._may_be_cleaned(log) else None
            if cleanable is not None:
                reset |= cleanable.checkpoint_is_wrong
                found.append((log, cleanable))
        if reset:
            await self._pool.run(self._logs.checkpoints.write_cleaned_offsets)
        # Some may be cleaned by another thread, or be deleted, meanwhile.
        return [(log, cleanable) for log, cleanable in found if self._may_be_cleaned(log)]

    async def _examine_uncleanable(self, now_ms: int) -> None:
        """Look anew at how much of the logs whose cleaning has failed could be cleaned, for `uncleanable_bytes`."""
        for log in list(self._uncleanable):
            await self._read_times(log, now_ms)
            if log in self._uncleanable and self._is_in_service(log) and not self._stopping.is_set():
                self._uncleanable[log] = self._cleanable_bytes(log, now_ms)

    def _cleanable_bytes(self, log: Log, now_ms: int) -> int:
        try:
            return examine(facts_of(log), now_ms).cleanable_bytes
        except Exception:
            # A log that cannot be read cannot be cleaned, so all of it counts.
            return log.size

    async def _read_times(self, log: Log, now_ms: int) -> None:
        """Let a worker read the times by which the log is examined, so that the loop does not wait for the disk."""

        def look(unreadable: Container[Segment]) -> list[Unread]:
            wanted = not self._stopping.is_set() and self._is_in_service(log)
            return [unread(log, now_ms, unreadable)] if wanted else []

        # The examination meets an error again, and reports it.
        with suppress(Exception):
            await read_unread(self._pool, look, self._ops)

    def _examine(self, log: Log, now_ms: int) -> Cleanable | None:
        """Examine a log, and correct a wrong `cleaned_offset`; leave it alone if it cannot be examined."""
        try:
            cleanable = examine(facts_of(log), now_ms)
        except Exception as error:
            self._failed(log, error)
            return None
        if cleanable.checkpoint_is_wrong:
            log.cleaned_offset = cleanable.first_dirty_offset
        return cleanable

    # -- cleaning --------------------------------------------------------------------------------------------

    async def _clean_filthiest(self, number: int) -> bool:
        """Clean the dirtiest log, and then apply retention to all compacted logs; return whether a log was cleaned."""
        grabbed = await self._grab(number)
        cleaned = False
        if grabbed is not None:
            log, cleanable = grabbed
            try:
                cleaned = await self._clean(number, log, cleanable)
            finally:
                log.being_cleaned = False
            if not cleaned:
                self._tried.add(log)
        await self._retain()
        return cleaned

    async def _clean(self, number: int, log: Log, cleanable: Cleanable) -> bool:
        job: CleaningJob | None = None
        try:
            job = make_job(log, cleanable, self._clock(), self._stopping.is_set)
            end, stats = await self._pool.run(self._work, log, job)
        except CleaningAbortedError as error:
            logger.info("Cleaning of %s-%d was aborted: %s", log.topic, log.partition, error)
            return False
        except KafkaStorageError as error:
            logger.warning("Cleaning of %s-%d was aborted: %s", log.topic, log.partition, error)
            return False
        except Exception as error:
            if log.offline is None and not self._is_over(job):
                self._failed(log, error)
            return False
        if log.truncations == job.truncations:
            log.cleaned_offset = end
        await self._pool.run(self._logs.checkpoints.write_cleaned_offsets)
        self.metrics.last[number] = stats
        self._report(number, job, end, stats)
        return True

    @staticmethod
    def _is_over(job: CleaningJob | None) -> bool:
        """Return whether a cleaning that failed had to end anyway, which is logged.

        A truncation removes the files that the worker reads, so the worker may fail before it notices.
        """
        if job is None:
            return False
        try:
            job.check()
        except CleaningAbortedError as reason:
            logger.info("Cleaning of %s was aborted: %s", job.name, reason)
            return True
        return False

    def _work(self, log: Log, job: CleaningJob) -> tuple[int, CleaningStats]:
        """Flush and clean one log on a worker's thread."""
        # Imported here because it imports numpy, which only brokers with compacted topics need.
        from broker.log.cleaner.clean import LogCleaning

        self._load_kernels(job)
        log.flush(job.first_uncleanable_offset)
        if not self._logs.checkpoints.write_recovery_points():
            raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: the recovery points could not be written")

        def swap(new: Sequence[Segment], old: Sequence[Segment]) -> None:
            if not self._pool.on_loop(self._replace(log, job, new, old)):
                raise CleaningAbortedError("its segments have changed")
            self._ops.fsync_dir(job.directory)

        run = LogCleaning(
            job, self._config(), self._throttle, swap, sleep=self._pool.sleep, resources=self._logs.resources
        )
        end = run.run()
        return end, run.stats

    def _load_kernels(self, job: CleaningJob) -> None:
        """Load the kernels, which only brokers with compacted topics need.

        A broker that stops does not wait until they are compiled.
        """
        from kafkalog.records import cleaning

        if not cleaning.loaded():
            loading = threading.Thread(target=cleaning.load, name="load-cleaning-kernels", daemon=True)
            start_thread(loading)
            while loading.is_alive():
                loading.join(0.1)
                job.check()
            compiler_pages.release()

    async def _replace(self, log: Log, job: CleaningJob, new: Sequence[Segment], old: Sequence[Segment]) -> bool:
        job.check()
        return log.replace_segments(new, old, self._clock())

    def _failed(self, log: Log, error: Exception) -> None:
        """Report an error, and leave the log alone from now on, unless it is a lack that may pass."""
        if isinstance(error, MemoryError | NoThreadError) or (isinstance(error, OSError) and error.errno in _PASSING):
            logger.error("Cannot clean %s now; retrying later: %s: %s", log.dir, type(error).__name__, error)
            return
        self._uncleanable[log] = self._cleanable_bytes(log, self._clock())
        logger.error(
            "Cleaning of %s failed; it is not tried again before the next start: %s: %s",
            log.dir, type(error).__name__, error, exc_info=not isinstance(error, OSError),
        )  # fmt: skip

    async def _retain(self) -> None:
        """Apply retention to compacted logs. As in Kafka the cleaner does it, so it never disturbs a cleaning."""
        now_ms = self._clock()
        for gone in [log for log in self._uncleanable if self._logs.get(log.topic, log.partition) is not log]:
            del self._uncleanable[gone]
        compacted = [log for log in self._logs if self._may_be_cleaned(log)]
        await retain(self._logs, self._pool, now_ms, (log for log in compacted if self._may_be_cleaned(log)))

    def _report(self, number: int, job: CleaningJob, end: int, stats: CleaningStats) -> None:
        seconds = max(stats.seconds, 1e-9)
        logger.info(
            "Log cleaner thread %d cleaned log %s (dirty section = [%d, %d]): %.1f MB of log processed in %.1f seconds "
            "(%.1f MB/sec), of which %.1f MB indexed in %.1f seconds; %.1f MB and %d records left of %.1f MB and %d "
            "records, %d segments of %d; buffer utilization %.1f%%",
            number, job.name, job.first_dirty_offset, end, stats.bytes_read / MEGABYTE, stats.seconds,
            stats.bytes_read / MEGABYTE / seconds, stats.map_bytes_read / MEGABYTE, stats.index_seconds,
            stats.bytes_written / MEGABYTE, stats.records_written, stats.bytes_read / MEGABYTE, stats.records_read,
            stats.segments_after, stats.segments_before, 100 * stats.buffer_utilization,
        )  # fmt: skip
        if stats.records_without_key:
            logger.warning("%s: %d records without a key were dropped", job.name, stats.records_without_key)
