"""The assigned partitions that a worker does not mirror at present, each for its reason."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.damaged import DamagedPartitions
from kafkalog.mirror.copying.positions.leaderless import LeaderlessPartitions
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.copying.refused_batches import Undone
from kafkalog.mirror.keeping.unreadable import UnreadableTopics
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.refused import RefusedTopics

if TYPE_CHECKING:
    from kafkalog.client.consumer import Consumer


class LeftOut:
    """The partitions that are left out of one assignment. A worker makes another one for each assignment.

    Attributes:
        leaderless: The partitions of which a leader does not answer.
        refused: The topics that the target refuses to make; None before they are made.
        unreadable: The topics whose configuration cannot be read; None before that is known.
        damaged: The partitions that are held at a batch that cannot be read.
        batches: The partitions that are held at a batch that the target refuses; those of earlier assignments, too.
    """

    def __init__(self, consumer: Consumer, progress: Progress) -> None:
        self._consumer, self._progress = consumer, progress
        self._out: frozenset[TopicPartition] = frozenset()
        self.leaderless = LeaderlessPartitions()
        self.refused: RefusedTopics | None = None
        self.unreadable: UnreadableTopics | None = None
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
        """Look again, if it is time, at what is left out, and read held partitions again.

        Raises:
            MirrorableAgainError: Something could be mirrored now that only another worker begins with.
            KafkaError, ClientError: A cluster cannot be asked.
        """
        if self.unreadable is not None:
            self.unreadable.check(now)
        self.leaderless.check(now)
        if self.refused is not None:
            self.refused.check(now)
        due = [*self.damaged.due(now), *self.batches.due(now)]
        if again := self.read.intersection(due):
            self._consumer.resume(*again)
