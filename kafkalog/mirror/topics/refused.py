"""Leave out topics and partitions that the target refuses to make, until it makes them."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kafkalog.client.types import TopicPartition
from kafkalog.mirror.rechecks import MirrorableAgainError
from kafkalog.mirror.topics.follower import Refusal, TopicFollower

logger = logging.getLogger(__name__)


class RefusedTopics:
    """The topics that a worker leaves out, or of which it leaves partitions out.

    Args:
        follower: What makes the topics.
        refused: What it could not make, by the names of the topics in the source.
    """

    def __init__(self, follower: TopicFollower, refused: Mapping[str, Refusal] | None = None) -> None:
        self._follower = follower
        self._refused = refused or {}
        self._has_told = False

    def __bool__(self) -> bool:
        return bool(self._refused)

    def lacks(self, tp: TopicPartition) -> bool:
        """Tell whether the target has no such partition."""
        return tp.topic in self._refused and tp.partition >= self._refused[tp.topic].partitions

    def check(self) -> None:
        """Let the topics be made, and name them in the log; at the first time, they were just refused.

        Raises:
            MirrorableAgainError: The target has made some of what it lacked.
            KafkaError, ClientError: A cluster cannot be asked.
        """
        if self._refused and self._has_told:
            still = self._follower.make(self._refused)
            for topic, before in self._refused.items():
                if topic not in still or still[topic].partitions > before.partitions:
                    raise MirrorableAgainError(f"the target makes topic {topic} now")
        self._has_told = True
        for topic, refusal in sorted(self._refused.items()):
            what = f"what topic {topic} has from partition {refusal.partitions} on" if refusal.partitions else topic
            logger.warning("%s is left out, because the target refuses to make it: %s", what, refusal.error)
