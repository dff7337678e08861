"""Moves of logs to other log directories, from their beginning to their end.

Threads of the mover's own copy the files, at most `num.replica.alter.log.dirs.threads` at once. The event loop's
thread lists the files of a log for them, and lets the copy take the log's place (`plan` has the steps).

A move ends when it is complete, when it is cancelled (by a request that names another directory, or by the deletion of
the topic), when a log directory fails, or when the broker stops. In the last case its files stay, and the next start
resumes the move once the partition is hosted. After a full disk the move is tried again.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from broker.log.alter_dirs.copier import Copier, SourceError, StaleError
from broker.log.alter_dirs.future_log import FutureLog
from broker.log.alter_dirs.moved_from import forget_moved_from
from broker.log.alter_dirs.plan import Extent, Step, next_step, reached
from broker.log.alter_dirs.startup import read_topic_id
from broker.log.cleaner.throttle import Throttle
from broker.log.directories.checkpoints import write_partition_metadata
from broker.log.directories.log_dir import LogDir
from broker.log.files.file_ops import NO_SPACE
from broker.log.log import Log
from broker.log.log_manager import LogManager
from broker.system.workers import LoopClosedError, NoThreadError, Workers
from kafkalog.protocol.errors import KafkaStorageError
from kafkalog.storage import names

logger = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_SECONDS = 5.0
"""Pause after a full disk."""
CATCH_UPS = 20
"""Rounds while flushes are held. If the copy has not caught up by then, flushes get their turn."""
_PAUSE = 0.02


class MoveEndedError(Exception):
    """The move was cancelled, or the broker is stopping."""


class _Listing(NamedTuple):
    """Describe a log at one moment for a worker."""

    directory: Path
    files: dict[str, Extent]
    epochs: list[tuple[int, int]]
    log_end_offset: int
    truncations: int


class LogMover:
    """Begin, carry out and end moves. Used on the event loop's thread.

    Args:
        workers: provides the mover's own threads.
        threads: how many moves copy at once.
        rate: returns how many bytes a second all moves together may copy; called each time.
    """

    def __init__(
        self,
        logs: LogManager,
        loop: asyncio.AbstractEventLoop,
        workers: Workers,
        threads: int,
        rate: Callable[[], float],
    ) -> None:
        self._logs = logs
        self._loop = loop
        self._ops = logs.ops
        self._rate = rate
        self._seconds = logs.resources.seconds
        self._throttle = Throttle(rate(), self._seconds)
        self._pool = workers.pool(threads, "kafkalog-move")
        self._stopping = threading.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    # -- beginning and ending ----------------------------------------------------------------------------------------

    def begin(self, log: Log, target: LogDir) -> FutureLog:
        """Begin to move `log`, which is not being moved, to another log directory.

        Raises:
            KafkaStorageError: the copy's directory cannot be made.
        """
        path = target.path / names.future_dir(log.topic, log.partition)
        try:
            self._ops.mkdir(str(path))
            if log.topic_id is not None:
                write_partition_metadata(str(path), log.topic_id, self._ops)
        except OSError as error:
            if error.errno not in NO_SPACE:
                self._logs.fail_directory(target.path, f"cannot make {path}: {error}")
            raise KafkaStorageError(f"Cannot make {path}: {error}") from error
        return self.resume(log, path)

    def resume(self, log: Log, path: Path) -> FutureLog:
        """Move `log` to `path`, a future directory that exists."""
        future = FutureLog(log, path)
        self._logs.futures.add(future)
        logger.info("Moving %s-%d from %s to %s", log.topic, log.partition, log.log_dir, future.log_dir)
        task = self._loop.create_task(self._run(future))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return future

    def resume_found(self, log: Log) -> None:
        """Resume the move of `log` that the last stop, or a crash, has interrupted, if there is one."""
        key = log.topic, log.partition
        path = self._logs.futures.found.get(key)
        if path is None:
            return
        if read_topic_id(path) not in (None, log.topic_id):
            logger.warning("%s is removed: it is the copy of a former topic of this name", path)
            self._logs.futures.cancel(key)
            return
        del self._logs.futures.found[key]
        self.resume(log, path)

    async def stop(self) -> None:
        """Stop all moves; the next start resumes them."""
        self._stopping.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._pool.close(wait=False)

    async def _run(self, future: FutureLog) -> None:
        log = future.log
        while not self._is_over(future):
            try:
                # Wait for a cleaning that is under way, or for the last step of an earlier move; both end soon.
                while (log.being_cleaned or log.also_in is not None) and not self._is_over(future):
                    await asyncio.sleep(_PAUSE)
                await self._pool.run(self._work, future)
            except (MoveEndedError, asyncio.CancelledError):
                return
            except SourceError as error:
                # Keep the copy: what it has of the log may not be readable there any more.
                if not self._is_over(future):
                    logger.error("Interrupting the move of %s-%d to %s: %s", *self._told(future), error)
                    self._logs.futures.interrupt(future)
            except OSError as error:
                if self._is_over(future):
                    return
                if error.errno not in NO_SPACE:
                    self._logs.fail_directory(future.log_dir, f"cannot move {log.topic}-{log.partition} there: {error}")
                    return
                logger.error("Cannot move %s-%d now; retrying later: %s", log.topic, log.partition, error)
                await self._pause(future)
            except NoThreadError as error:
                logger.error("Cannot move %s-%d now; retrying later: %s", log.topic, log.partition, error)
                await self._pause(future)
            except Exception as error:
                self._give_up(future, error)

    async def _pause(self, future: FutureLog) -> None:
        end = self._loop.time() + RETRY_SECONDS
        while self._loop.time() < end and not self._is_over(future):
            await asyncio.sleep(_PAUSE)

    def _is_over(self, future: FutureLog) -> bool:
        return future.ended.is_set() or self._stopping.is_set()

    def _give_up(self, future: FutureLog, error: Exception) -> None:
        if self._is_over(future):
            return
        logger.error(
            "Giving up the move of %s-%d to %s: %s", *self._told(future), error,
            exc_info=error if not isinstance(error, OSError | KafkaStorageError) else None,
        )  # fmt: skip
        self._logs.futures.cancel((future.log.topic, future.log.partition))

    @staticmethod
    def _told(future: FutureLog) -> tuple[str, int, Path]:
        return future.log.topic, future.log.partition, future.log_dir

    # -- on a worker's thread ----------------------------------------------------------------------------------------

    def _work(self, future: FutureLog) -> None:
        log = future.log
        listing = self._list(future)

        def pace(size: int) -> None:
            self._check(future)
            future.size = copier.size
            future.log_end_offset = max(future.log_end_offset, reached(listing.files, copier.have, 0))
            if not future.settling:
                self._wait(future, size)

        copier = Copier(future.dir, self._ops, pace)
        # Remove the marker of an earlier move that ended before its last step: it must not vouch for this one.
        forget_moved_from(str(log.dir), self._ops)
        copier.take_over(listing.directory, listing.files)
        begun = False
        while True:
            try:
                listing = self._list(future)
                if next_step(copier.lacks(listing.files), begun=begun) is Step.COPY:
                    self._copy(future, copier, listing)
                    begun = True
                    copier.sync(listing.directory, listing.files)
                    continue
                # From here on the recovery point stands still, so after a crash the copy has all that was flushed.
                with log.flushes:
                    doomed = self._settle(future, copier)
                if doomed is not None:
                    return self._finish(future, doomed)
            except StaleError:
                self._pool.sleep(_PAUSE)

    def _wait(self, future: FutureLog, size: int) -> None:
        """Wait as long as the rate requires after `size` more bytes, unless the rate changes or the move ends."""
        rate = self._throttle.rate = self._rate()
        end = self._seconds() + self._throttle.delay(size)
        while (left := end - self._seconds()) > 0 and self._rate() == rate and not self._is_over(future):
            self._pool.sleep(min(left, 0.1))

    def _copy(self, future: FutureLog, copier: Copier, listing: _Listing) -> None:
        copier.apply(listing.directory, listing.files, copier.lacks(listing.files))
        future.size, future.log_end_offset = copier.size, listing.log_end_offset

    def _settle(self, future: FutureLog, copier: Copier) -> Path | None:
        """Let the copy take the log's place.

        Return the old directory's new path, or None if the copy could not catch up with the log.
        """
        future.settling = True
        truncations = -1
        try:
            for _ in range(CATCH_UPS):
                listing = self._list(future)
                self._copy(future, copier, listing)
                # A truncation lets all files be copied anew, and later flushes would not force the older segments.
                if (copier.epochs, truncations) != (listing.epochs, listing.truncations):
                    copier.sync(listing.directory, listing.files)
                    copier.settle(future.log.log_dir, listing.epochs, future.log.topic_id)
                    self._on_loop(self._also_in(future, future.log_dir))
                    if not self._logs.checkpoints.write_all():
                        raise OSError(errno.ENOSPC, f"{os.strerror(errno.ENOSPC)}: no checkpoint could be written")
                    truncations = listing.truncations
                doomed = self._on_loop(self._swap(future, copier, truncations))
                if doomed is not None:
                    return doomed
            return None
        finally:
            future.settling = False
            copier.epochs = None
            if future.log.log_dir != future.log_dir:
                self._on_loop(self._also_in(future, None))

    def _finish(self, future: FutureLog, doomed: Path) -> None:
        """Force the swap to the device, and remove the marker file."""
        log, directory = future.log, str(future.log.dir)
        try:
            self._logs.sync_directory(future.log_dir)
            self._logs.sync_directory(doomed.parent)
            self._on_loop(self._also_in(future, None))
            self._logs.checkpoints.write_all()
            forget_moved_from(directory, self._ops)
        except KafkaStorageError as error:
            # That directory is offline now. Whichever names the next start finds, the marked log is the right one.
            logger.error("%s-%d was moved to %s: %s", log.topic, log.partition, log.log_dir, error)
        except OSError as error:
            if self._logs.holds(log):
                self._logs.fail_directory(log.log_dir, f"cannot remove {names.MOVED_FROM}: {error}")
        if any(directory.path == future.log_dir for directory in self._logs.online_dirs):
            self._logs.remove_later(doomed, log.config.file_delete_delay_ms)
            logger.info("Moved %s-%d to %s", log.topic, log.partition, future.log_dir)
        else:
            self._keep(future, doomed)

    def _keep(self, future: FutureLog, doomed: Path) -> None:
        """Keep the old directory, because it may be all that is left of the log; the operator has to decide."""
        log = future.log
        kept = doomed.parent / names.delete_dir(log.topic, log.partition, names.STRAY_DIR)
        try:
            self._ops.rename(str(doomed), str(kept))
            self._ops.fsync_dir(str(kept.parent))
        except OSError as error:
            logger.error("Cannot keep %s from being removed at the next start: %s", doomed, error)
            return
        logger.error(
            "%s failed as soon as %s-%d had been moved there. The log as it was before is kept in %s; "
            "to go back to it, stop the broker, take %s out of log.dirs, and name it %s",
            future.log_dir, log.topic, log.partition, kept, future.log_dir, kept.with_name(log.dir.name),
        )  # fmt: skip

    def _check(self, future: FutureLog) -> None:
        if self._is_over(future) or future.log.offline is not None:
            raise MoveEndedError

    # -- on the event loop's thread, for a worker --------------------------------------------------------------------

    def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            return self._pool.on_loop(work)
        except LoopClosedError:
            raise MoveEndedError from None

    def _list(self, future: FutureLog) -> _Listing:
        return self._on_loop(self._listing(future))

    async def _listing(self, future: FutureLog) -> _Listing:
        self._check(future)
        log = future.log
        return _Listing(log.dir, log.files(), log.epochs.entries(), log.log_end_offset, log.truncations)

    async def _also_in(self, future: FutureLog, log_dir: Path | None) -> None:
        if log_dir is not None:
            self._check(future)
        future.log.also_in = log_dir

    async def _swap(self, future: FutureLog, copier: Copier, truncations: int) -> Path | None:
        self._check(future)
        log = future.log
        files, epochs = log.files(), log.epochs.entries()
        round_ = copier.lacks(files)
        has_changed = (epochs, log.truncations) != (copier.epochs, truncations)
        if has_changed or next_step(round_, settled=True) is not Step.SWAP:
            return None
        copier.apply(log.dir, files, round_)
        return self._logs.replace_by_future(future, epochs)
