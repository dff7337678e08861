"""Leave out partitions whose leader does not tell an offset, until it does, so that the others do not wait for them."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError, is_retriable
from kafkalog.client.offsets import ask_leaders
from kafkalog.client.types import READ_UNCOMMITTED, OffsetAndTimestamp, TopicPartition

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""The time for which leaders are asked. The whole assignment waits that long for an election."""
CHECK_S = 10.0
"""The interval at which the leaders are asked again, and the partitions are named."""
_ANSWER_S = 2.0
"""The time that each of the later questions may take: the worker mirrors nothing meanwhile."""


class LedAgainError(ClientError):
    """The leader of a partition that is left out answers. A new worker mirrors the partition."""

    retriable = True


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
        self._due_at = float("-inf")

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
        deadline = time.monotonic() + PATIENCE_S
        found: dict[TopicPartition, OffsetAndTimestamp] = {}
        while True:
            failed: dict[TopicPartition, Exception] = {}
            remaining = {tp: timestamp for tp, timestamp in timestamps.items() if tp not in found}
            if not remaining:
                return found
            for tp, answer in ask_leaders(cluster, remaining, isolation_level, deadline).items():
                if not isinstance(answer, Exception):
                    found[tp] = answer
                elif is_retriable(answer):
                    failed[tp] = answer
                else:
                    raise answer
            cluster.forget({tp.topic for tp in failed})
            pause = max(cluster.config.retry_backoff, 0.01)
            if failed and time.monotonic() + pause >= deadline:
                for tp, error in failed.items():
                    ours = tp if of is None else of[tp]
                    self._left_out[ours] = _Question(cluster, tp, timestamps[tp], error)
                return found
            if failed:
                time.sleep(pause)

    def check(self, now: float) -> None:
        """Name the partitions in the log, and ask their leaders, if it is time: at once, and then every `CHECK_S`.

        Raises:
            LedAgainError: The leader of one answers.
        """
        if not self._left_out or now < self._due_at:
            return
        self._due_at = now + CHECK_S
        by_cluster: dict[Cluster, dict[TopicPartition, int]] = defaultdict(dict)
        for each in self._left_out.values():
            by_cluster[each.cluster][each.asked] = each.timestamp
        for cluster, timestamps in by_cluster.items():
            cluster.forget({tp.topic for tp in timestamps})
            answers = ask_leaders(cluster, timestamps, READ_UNCOMMITTED, time.monotonic() + _ANSWER_S)
            for tp, answer in answers.items():
                if not (isinstance(answer, Exception) and is_retriable(answer)):
                    raise LedAgainError(f"the leader of {tp} answers again")
        for tp, question in sorted(self._left_out.items()):
            logger.warning("%s is left out for now: %s", tp, question.error)
