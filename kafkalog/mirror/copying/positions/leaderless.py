"""Leave out partitions whose leader does not tell an offset, until it does, so that the others do not wait for them."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import is_retriable
from kafkalog.client.offsets import ask_leaders, list_offsets_each
from kafkalog.client.types import READ_UNCOMMITTED, OffsetAndTimestamp, TopicPartition
from kafkalog.mirror.rechecks import MirrorableAgainError

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""The time for which leaders are asked. The whole assignment waits that long for an election."""
_ANSWER_S = 2.0
"""The time that each of the later questions may take."""


class _Question(NamedTuple):
    cluster: Cluster
    asked: TopicPartition
    timestamp: int
    error: Exception


class LeaderlessPartitions:
    """The partitions that a worker leaves out, because the leader of one does not answer in the source or the target.

    A leader that is known again and has another error than a passing one ends the worker, too.
    """

    def __init__(self) -> None:
        self._left_out: dict[TopicPartition, _Question] = {}

    def __bool__(self) -> bool:
        return bool(self._left_out)

    @property
    def partitions(self) -> Collection[TopicPartition]:
        """The partitions of the source that are left out."""
        return self._left_out.keys()

    def ask(
        self,
        cluster: Cluster,
        timestamps: Mapping[TopicPartition, int],
        isolation_level: int = READ_UNCOMMITTED,
        of: Mapping[TopicPartition, TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Find offsets as `client.offsets.list_offsets` does, but only for `PATIENCE_S`; leave out the partitions left.

        Args:
            cluster: The source or the target.
            timestamps: The partitions to ask about; see `list_offsets`.
            isolation_level: See `list_offsets`.
            of: The partitions of the source to which those belong; unless given, they are those of the source.

        Raises:
            KafkaError, ClientError: A partition has an error that does not pass.
        """
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        for tp, answer in list_offsets_each(
            cluster, timestamps, isolation_level, time.monotonic() + PATIENCE_S
        ).items():
            if isinstance(answer, Exception):
                if not is_retriable(answer):
                    raise answer
                self._left_out[tp if of is None else of[tp]] = _Question(cluster, tp, timestamps[tp], answer)
            else:
                found[tp] = answer
        return found

    def check(self) -> None:
        """Ask the leaders of the partitions, and name these in the log.

        Raises:
            MirrorableAgainError: The leader of one answers.
        """
        by_cluster: dict[Cluster, dict[TopicPartition, int]] = defaultdict(dict)
        for each in self._left_out.values():
            by_cluster[each.cluster][each.asked] = each.timestamp
        for cluster, timestamps in by_cluster.items():
            cluster.forget({tp.topic for tp in timestamps})
            answers = ask_leaders(cluster, timestamps, READ_UNCOMMITTED, time.monotonic() + _ANSWER_S)
            for tp, answer in answers.items():
                if not (isinstance(answer, Exception) and is_retriable(answer)):
                    raise MirrorableAgainError(f"the leader of {tp} answers again")
        for tp, question in sorted(self._left_out.items()):
            logger.warning("%s is left out until its leader answers: %s", tp, question.error)
