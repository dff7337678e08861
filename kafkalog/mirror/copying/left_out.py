"""The assigned partitions that a worker does not mirror at present, each for its reason."""

from __future__ import annotations

import logging
from collections.abc import Collection
from concurrent.futures import Future
from typing import TYPE_CHECKING

from kafkalog.client.errors import ClientError, KafkaError, is_retriable
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.damaged import DamagedPartitions
from kafkalog.mirror.copying.positions.leaderless import LeaderlessPartitions
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.copying.rechecker import Rechecker
from kafkalog.mirror.copying.refused_batches import Undone
from kafkalog.mirror.keeping.unreadable import UnreadableTopics
from kafkalog.mirror.rechecks import MirrorableAgainError, RecheckTimer
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.refused import RefusedTopics

if TYPE_CHECKING:
    from kafkalog.client.consumer import Consumer

logger = logging.getLogger(__name__)


class LeftOut:
    """The partitions that are left out of one assignment. A worker makes another one for each assignment.

    Attributes:
        leaderless: The partitions of which a leader does not answer.
        refused: The topics that the target refuses to make; None before they are made.
        unreadable: The topics whose configurations cannot be read, of the source or of the target.
        damaged: The partitions that are held at a batch that cannot be read.
        batches: The partitions that are held at a batch that the target refuses; those of earlier assignments, too.
    """

    def __init__(self, consumer: Consumer, progress: Progress, rechecker: Rechecker) -> None:
        self._consumer, self._progress, self._rechecker = consumer, progress, rechecker
        self._timer = RecheckTimer()
        self._recheck: Future[None] | None = None
        """The check that is under way, or whose outcome was not taken yet."""
        self._out: frozenset[TopicPartition] = frozenset()
        self.leaderless = LeaderlessPartitions()
        self.refused: RefusedTopics | None = None
        self.unreadable: list[UnreadableTopics] = []
        self.damaged = DamagedPartitions()
        self.batches = progress.refused
        self.batches.begin_again()

    @property
    def read(self) -> frozenset[TopicPartition]:
        """The assigned partitions that are read at present."""
        return self._consumer.assignment() - self._out - self._held

    @property
    def _held(self) -> frozenset[TopicPartition]:
        return frozenset([*self.damaged.waiting, *self.batches.waiting])

    def leave_out(
        self, partitions: Collection[TopicPartition], unwanted: Collection[TopicPartition]
    ) -> list[TopicPartition]:
        """Read nothing of unwanted partitions; return the others."""
        out = frozenset(tp for tp in partitions if tp in unwanted)
        self._out |= out
        self._consumer.pause(*out)
        for tp in out:
            # A partition must have a position, also one that is not read.
            self._consumer.seek(tp, 0)
        return [tp for tp in partitions if tp not in out]

    def leave_out_topics(self, partitions: Collection[TopicPartition], topics: Collection[str]) -> list[TopicPartition]:
        """Read nothing of the partitions of these topics; return the others."""
        return self.leave_out(partitions, {tp for tp in partitions if tp.topic in topics})

    def hold(self, tp: TopicPartition, offset: int, error: Exception, now: float) -> None:
        """Read nothing of a partition for a time, because its batch at `offset` cannot be read."""
        self._consumer.pause(tp)
        self.damaged.note(tp, offset, error, now)
        self._progress.held(tp, is_held=True)

    def wait(self, tp: TopicPartition, offset: int, error: Exception, now: float) -> None:
        """Read nothing of a partition for a time, because its leader does not tell where to go on."""
        self._consumer.pause(tp)
        pause = self.damaged.hold(tp, offset, now)
        self._progress.held(tp, is_held=True)
        logger.warning(
            "%s is held at offset %d of the source, because its leader does not answer, and tried again in %.0f s: %s. "
            "Others are mirrored",
            *(tp, offset, pause, error),
        )

    def stop(self, tp: TopicPartition, position: int) -> None:
        """Read nothing of a partition for a time, because the target refuses its batch at `position`."""
        self._consumer.pause(tp)
        self._consumer.seek(tp, position)
        self.batches.stop(tp)
        self._progress.held(tp, is_held=True)

    def undo(self, undone: Undone, settings: MirrorSettings, now: float) -> None:
        """Go back to where a task's partitions are to be read again, and hold those with refused batches."""
        for tp, position in undone.positions.items():
            self._consumer.seek(tp, position)
        for tp, batch in undone.refused.items():
            copied = settings.config_filter if settings.sync_configs else None
            if self.batches.note(tp, batch, settings.naming.remote(tp.topic), now, copied):
                self._progress.held(tp, is_held=True)
        for tp in undone.positions:
            if self.batches.read_on(tp) and tp not in self._held:
                # What comes before the refused batch is mirrored.
                self._consumer.resume(tp)

    def release(self, tp: TopicPartition, position: int) -> None:
        """Hold a partition no more that could be read up to `position`, if it is held before that."""
        if self.damaged.release(tp, position):
            self._progress.held(tp, is_held=False)

    def taken(self, tp: TopicPartition, position: int) -> None:
        """Hold a partition no more whose records before `position` the target has, if it has refused one of them."""
        if self.batches.release(tp, position):
            self._progress.held(tp, is_held=False)

    def check(self, now: float) -> None:
        """Begin to look again at what is left out, if it is time, and read held partitions again.

        Raises:
            MirrorableAgainError: Something could be mirrored now that only another worker begins with.
            KafkaError, ClientError: A cluster refuses to be asked.
        """
        if self._recheck is not None and self._recheck.done():
            recheck, self._recheck = self._recheck, None
            recheck.result()
        lacks_some = any((*self.unreadable, self.leaderless, self.refused))
        if self._recheck is None and lacks_some and self._timer.is_due(now):
            self._recheck = self._rechecker.begin(self._look_again)
        due = [*self.damaged.due(now), *self.batches.due(now)]
        if again := self.read.intersection(due):
            self._consumer.resume(*again)

    def _look_again(self) -> None:
        """Look once at each of what is left out; the thread of the rechecker does it, and waits for slow clusters."""
        checks = (*self.unreadable, self.leaderless, self.refused)
        for check in (each.check for each in checks if each):
            try:
                check()
            except MirrorableAgainError:
                raise
            except (KafkaError, ClientError) as error:
                if not is_retriable(error):
                    raise
                logger.warning("what is left out could not be looked at, and is looked at again later: %s", error)
