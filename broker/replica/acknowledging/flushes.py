"""Flushes of logs whose records are acknowledged only when they are on the device (`flush.messages`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from broker.log.log import Log
from broker.replica.partition import Partition
from broker.system.workers import Workers

logger = logging.getLogger(__name__)


class Flushes:
    """The flushes that are under way: at most one of each log. Used on the event loop's thread only.

    Args:
        workers: flush the logs.
        ended: called with a partition after a flush of its log has ended, well or not.
    """

    def __init__(self, workers: Workers, ended: Callable[[Partition], None]) -> None:
        self._workers = workers
        self._ended = ended
        self._wanted: dict[Log, int] = {}
        """The logs that are being flushed, with the offset up to which an operation waits for it.

        Partitions do not stand for them: one may be deleted, and created anew, while its former log is flushed.
        """
        self._under_way: dict[Log, asyncio.Future[None]] = {}

    def begin(self, partition: Partition) -> None:
        """Flush a partition's log on a worker. If a flush is under way, the next one covers what was appended since."""
        is_under_way = partition.log in self._wanted
        self._wanted[partition.log] = partition.log.log_end_offset
        if is_under_way:
            return
        work = self._workers.run(partition.log.flush)
        self._under_way[partition.log] = work
        work.add_done_callback(lambda done: self._end(partition, done))

    async def until_ended(self, partition: Partition) -> None:
        """Wait until the flush of a partition that is under way, if there is one, has ended, well or not."""
        while (flush := self._under_way.get(partition.log)) is not None:
            await asyncio.wait([flush])
            # Let `_end` run, which may begin another one.
            await asyncio.sleep(0)

    def _end(self, partition: Partition, done: asyncio.Future[None]) -> None:
        wanted = self._wanted.pop(partition.log)
        del self._under_way[partition.log]
        error = None if done.cancelled() else done.exception()
        if error is not None:
            logger.error("%s-%d: %s", *partition.key, error)
        elif partition.log.recovery_point < wanted and partition.log.offline is None:
            self.begin(partition)
        self._ended(partition)
