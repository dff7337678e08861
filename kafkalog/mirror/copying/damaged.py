"""Hold partitions at batches of the source that cannot be read, so that the others are mirrored.

A checksum may be wrong because a disk is damaged. The same batch may be whole at the next leader, or after a repair. So
it is read again, after pauses that grow. Nothing is passed over: a mirror that skipped records would not be one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from kafkalog.client.types import TopicPartition

logger = logging.getLogger(__name__)

PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
"""The first pause before a batch is read again, and the longest one."""


@dataclass
class _Held:
    offset: int
    pause: float
    due_at: float
    reading: bool = False


class DamagedPartitions:
    """The partitions that are held, and when each is read again. Times are those of `time.monotonic`, in seconds."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, _Held] = {}

    @property
    def waiting(self) -> Collection[TopicPartition]:
        """The partitions that must not be read now."""
        return {tp for tp, each in self._held.items() if not each.reading}

    def hold(self, tp: TopicPartition, offset: int, error: Exception, now: float) -> None:
        """Hold a partition, because the batch at `offset` cannot be read; name it in the log."""
        before = self._held.get(tp)
        again = before is not None and before.offset == offset
        pause = min(before.pause * 2, LONGEST_PAUSE_S) if before is not None and again else PAUSE_S
        self._held[tp] = _Held(offset, pause, now + pause)
        logger.warning(
            "%s is held at offset %d of the source, and tried again in %.0f s: %s. Others are mirrored. If no replica "
            "has the batch whole, delete the records before the next one (kafkalog delete-records)",
            tp,
            offset,
            pause,
            error,
        )

    def due(self, now: float) -> list[TopicPartition]:
        """Return the partitions that are to be read again now, each once."""
        found = [tp for tp, each in self._held.items() if not each.reading and now >= each.due_at]
        for tp in found:
            self._held[tp].reading = True
        return found

    def release(self, tp: TopicPartition, position: int) -> bool:
        """Forget a partition that is held before `position`; return whether it was. It could be read up to there."""
        held = self._held.get(tp)
        if held is None or held.offset >= position:
            # What was fetched before the damage says nothing about it.
            return False
        del self._held[tp]
        logger.info("%s is mirrored again", tp)
        return True
