"""Hold partitions at batches that cannot be mirrored now, so that the others are mirrored.

What stops a batch may pass: a disk is repaired, or a topic of the target is configured otherwise. So each batch is
tried again, after pauses that grow. Nothing is passed over: a mirror that skipped records would not be one.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass

from kafkalog.client.types import TopicPartition

logger = logging.getLogger(__name__)

PAUSE_S, LONGEST_PAUSE_S = 10.0, 300.0
"""The first pause before a batch is tried again, and the longest one."""


@dataclass
class _Held:
    offset: int
    pause: float
    due_at: float
    trying: bool = False
    stopped: bool = True
    """True if the partition is read up to the batch, and paused there."""


class HeldPartitions:
    """The partitions that are held, and when each is tried again. Times are those of `time.monotonic`, in seconds."""

    def __init__(self) -> None:
        self._held: dict[TopicPartition, _Held] = {}

    @property
    def waiting(self) -> Collection[TopicPartition]:
        """The partitions that must not be read now."""
        return {tp for tp, each in self._held.items() if each.stopped and not each.trying}

    def hold(self, tp: TopicPartition, offset: int, now: float, *, stopped: bool = True) -> float:
        """Hold a partition at the batch at `offset`; return the pause until it is tried again.

        `stopped` says whether the partition was read up to there.
        """
        before = self._held.get(tp)
        again = before is not None and before.offset == offset
        pause = min(before.pause * 2, LONGEST_PAUSE_S) if before is not None and again else PAUSE_S
        self._held[tp] = _Held(offset, pause, now + pause, stopped=stopped)
        return pause

    def due(self, now: float) -> list[TopicPartition]:
        """Return the partitions that are to be read again now, each once."""
        found = [tp for tp, each in self._held.items() if not each.trying and now >= each.due_at]
        for tp in found:
            self._held[tp].trying = True
        return [tp for tp in found if self._held[tp].stopped]

    def release(self, tp: TopicPartition, position: int) -> bool:
        """Forget a partition that is held before `position`; return whether it was. It was mirrored up to there."""
        held = self._held.get(tp)
        if held is None or held.offset >= position:
            # What comes before the batch says nothing about it.
            return False
        del self._held[tp]
        logger.info("%s is mirrored again", tp)
        return True
