"""Leave out topics and partitions that the target refuses to make, until it makes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalog.client.errors import ClientError
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.topics.follower import Refusal, TopicFollower

logger = logging.getLogger(__name__)

CHECK_S = 10.0
"""The interval at which the target is asked again, and the topics are named."""


class MadeAtLastError(ClientError):
    """The target has made something that is left out. A new worker mirrors it."""

    retriable = True


class RefusedTopics:
    """The topics that a worker leaves out, or of which it leaves partitions out.

    Args:
        follower: What makes the topics.
        refused: What it could not make, by the names of the topics in the source.
    """

    def __init__(self, follower: TopicFollower, refused: Mapping[str, Refusal] | None = None) -> None:
        self._follower = follower
        self._refused = refused or {}
        self._due_at: float | None = None

    def lacks(self, tp: TopicPartition) -> bool:
        """Tell whether the target has no such partition."""
        return tp.topic in self._refused and tp.partition >= self._refused[tp.topic].partitions

    def check(self, now: float) -> None:
        """Name the topics in the log, at once and every `CHECK_S`; and let them be made every `CHECK_S`.

        Raises:
            MadeAtLastError: The target has made some of what it lacked.
            KafkaError, ClientError: A cluster cannot be asked.
        """
        if not self._refused or (self._due_at is not None and now < self._due_at):
            return
        is_first, self._due_at = self._due_at is None, now + CHECK_S
        if not is_first:
            still = self._follower.make(self._refused)
            for topic, before in self._refused.items():
                if topic not in still or still[topic].partitions > before.partitions:
                    raise MadeAtLastError(f"the target makes topic {topic} now")
        for topic, refusal in sorted(self._refused.items()):
            what = f"what topic {topic} has from partition {refusal.partitions} on" if refusal.partitions else topic
            logger.warning("%s is left out, because the target refuses to make it: %s", what, refusal.error)
