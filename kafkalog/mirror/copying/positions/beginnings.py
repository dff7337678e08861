"""Find where partitions begin of which nothing was mirrored."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kafkalog.client.cluster import Cluster
from kafkalog.client.offsets import EARLIEST, LATEST
from kafkalog.client.types import READ_COMMITTED, TopicPartition
from kafkalog.mirror.copying.positions.leaderless import LeaderlessPartitions
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.settings import MirrorSettings


class Beginnings:
    """The beginnings for one assignment. Partitions whose leader does not answer are left to `leaderless`."""

    def __init__(
        self, settings: MirrorSettings, progress: Progress, source: Cluster, leaderless: LeaderlessPartitions
    ) -> None:
        self._settings, self._progress, self._source = settings, progress, source
        self._leaderless = leaderless

    def late(
        self, new: Collection[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return where those of new partitions begin that begin late.

        With `auto.offset.reset=latest` these are the partitions of the topics that there are when the process begins.
        They begin where they ended then, also if this worker is a later one: it goes on in the place of one that failed
        before it had stored that. Those without a leader begin where they end when they have one.
        """
        if self._settings.start_at != "latest":
            return {}
        known = {tp.topic for tp in positions}
        starts, owed = self._progress.late_starts, self._progress.late_without_start
        if not self._progress.has_begun:
            owed |= {tp for tp in new if tp.topic not in known and tp not in starts}
        asked = [tp for tp in new if tp in owed]
        ends = self._leaderless.ask(self._source, dict.fromkeys(asked, LATEST), READ_COMMITTED)
        starts |= {tp: end.offset for tp, end in ends.items()}
        owed -= ends.keys()
        return {tp: starts[tp] for tp in new if tp in starts}

    def all(
        self, new: Collection[TopicPartition], positions: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return where new partitions begin, late or at the beginning of the log."""
        late = self.late(new, positions)
        early = [tp for tp in new if tp not in late and tp not in self._leaderless.partitions]
        found = self._leaderless.ask(self._source, dict.fromkeys(early, EARLIEST))
        return {tp: begin.offset for tp, begin in found.items()} | late
