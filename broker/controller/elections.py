"""Leader elections that administrators ask for (KIP-183, KIP-460). Pure.

The brokers that may lead a partition are its replicas in log directories that are online; on a broker that holds the
only replica that is one candidate or none. So a partition either has its preferred leader, and needs no election, or
has no leader and nobody to elect.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

from broker.metadata.model import ClusterState
from kafkalog.protocol.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidRequestError,
    KafkaError,
    PreferredLeaderNotAvailableError,
    UnknownTopicOrPartitionError,
)

TopicPartition = tuple[str, int]


class ElectionType(IntEnum):
    """Who shall be elected."""

    PREFERRED = 0
    """The first replica of the assignment."""
    UNCLEAN = 1
    """Any live replica, where none that is in sync is left."""

    @classmethod
    def parse(cls, code: int) -> ElectionType:
        """The type of a request's code.

        Raises:
            InvalidRequestError: there is none.
        """
        try:
            return cls(code)
        except ValueError:
            raise InvalidRequestError(f"Unknown election type {code}: it is 0 (preferred) or 1 (unclean)") from None


def elect(
    state: ClusterState, kind: ElectionType, is_online: Callable[[str, int], bool]
) -> dict[TopicPartition, KafkaError]:
    """What keeps each partition of the cluster from being given a leader, but for those that need no election.

    Args:
        is_online: whether the partition's log can be used.
    """
    every = [(name, index) for name, topic in state.topics.items() for index in range(len(topic.partitions))]
    judged = {key: judge(state, key, kind, is_online) for key in every}
    return {key: error for key, error in judged.items() if not isinstance(error, ElectionNotNeededError)}


def judge(
    state: ClusterState, key: TopicPartition, kind: ElectionType, is_online: Callable[[str, int], bool]
) -> KafkaError:
    """What keeps a partition from being given a leader."""
    name, index = key
    topic = state.topics.get(name)
    if topic is None or not 0 <= index < len(topic.partitions):
        return UnknownTopicOrPartitionError("The partition does not exist.")
    if is_online(name, index):
        return ElectionNotNeededError()
    failed = f"Failed to elect a leader for partition {name}-{index}: its log directory is offline"
    if kind is ElectionType.PREFERRED:
        return PreferredLeaderNotAvailableError(failed)
    return EligibleLeadersNotAvailableError(failed)
