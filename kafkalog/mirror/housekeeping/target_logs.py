"""The topics of the target as they are now: what an offset there can still mean.

A topic of the target may be deleted and created again, as it must be before `--offsets keep` takes it. Checkpoints and
marks that are stored for the old one say nothing about the new one, and an offset that comes from the old one may be
behind records that a group has never read. Three things tell so, since none does alone: the topic's id, which Kafka
before 2.8 and older mirrors have not stored; the end of the log; and the map of offsets.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from operator import attrgetter
from uuid import UUID

from kafkalog.client.admin import Admin
from kafkalog.client.offsets import LATEST, ask_leaders
from kafkalog.client.types import READ_COMMITTED, TopicPartition
from kafkalog.mirror.copying.positions.created_again import topic_ids
from kafkalog.mirror.internal_topics.runs import Run

PATIENCE_S = 10.0
"""The time to wait for the ends of partitions."""


class TargetLogs:
    """The ids of topics and the ends of partitions of the target, as of the last `look`."""

    def __init__(self, target: Admin) -> None:
        self._target = target
        self._ids: dict[str, UUID] = {}
        self._ends: dict[TopicPartition, int] = {}

    @property
    def ids(self) -> Mapping[str, UUID]:
        """The ids by topic; zero where the brokers have none."""
        return self._ids

    def look(self, partitions: Collection[TopicPartition]) -> None:
        """Look at these partitions. Those that have no leader now do not hold the others up.

        Raises:
            KafkaError, ClientError: The target cannot be asked.
        """
        # The ends come last: an end that is large enough is not one of an earlier topic than the id.
        self._ids = topic_ids(self._target, {tp.topic for tp in partitions})
        there = [tp for tp in partitions if tp.topic in self._ids]
        deadline = time.monotonic() + PATIENCE_S
        answers = ask_leaders(self._target.cluster, dict.fromkeys(there, LATEST), READ_COMMITTED, deadline)
        self._ends = {tp: each.offset for tp, each in answers.items() if not isinstance(each, Exception)}

    def has(self, partition: TopicPartition, offset: int) -> bool:
        """Tell whether a group can be at an offset; False also where the end of the log is not known."""
        return offset <= self._ends.get(partition, -1)


def passes_over(runs: Sequence[Run], upstream: int, downstream: int) -> bool:
    """Tell whether a group at `downstream` in the target would miss a record that is at `upstream` or behind it."""
    at = bisect_right(runs, upstream, key=attrgetter("upstream")) - 1
    if at >= 0 and upstream < runs[at].ends[0]:
        return downstream > runs[at].downstream + upstream - runs[at].upstream
    return at + 1 < len(runs) and downstream > runs[at + 1].downstream
