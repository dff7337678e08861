"""Leader elections requested by administrators (KIP-183, KIP-460). Pure.

A partition may be led by its replicas in online log directories. With a single replica there is one candidate or none.
So a partition either has its preferred leader and needs no election, or it has no leader and no candidate.
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
    """The kinds of election."""

    PREFERRED = 0
    """Elect the preferred leader, the first replica of the assignment."""
    UNCLEAN = 1
    """Elect any live replica if no in-sync replica is left."""

    @classmethod
    def parse(cls, code: int) -> ElectionType:
        """Return the type for a request's code.

        Raises:
            InvalidRequestError: the code is unknown.
        """
        try:
            return cls(code)
        except ValueError:
            raise InvalidRequestError(f"Unknown election type {code}: it is 0 (preferred) or 1 (unclean)") from None


def elect(
    state: ClusterState, kind: ElectionType, is_online: Callable[[str, int], bool]
) -> dict[TopicPartition, KafkaError]:
    """Return the error of the election of each partition of the cluster, except those that need no election.

    Args:
        state: the registry.
        kind: the kind of election.
        is_online: returns whether a partition's log can be used.
    """
    every = [(name, index) for name, topic in state.topics.items() for index in range(len(topic.partitions))]
    judged = {key: judge(state, key, kind, is_online) for key in every}
    return {key: error for key, error in judged.items() if not isinstance(error, ElectionNotNeededError)}


def judge(
    state: ClusterState, key: TopicPartition, kind: ElectionType, is_online: Callable[[str, int], bool]
) -> KafkaError:
    """Return the error of the election of one partition."""
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
