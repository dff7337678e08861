"""One partition in a request of the fetcher."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from kafkalog.client.consumer.fetcher.fetch_position import NO_EPOCH, FetchPosition
from kafkalog.client.consumer.subscription import PartitionState
from kafkalog.client.metadata import Leader
from kafkalog.protocol.schema import ZERO_UUID


@dataclass(frozen=True)
class AskedPartition:
    """A partition in a request: the version of its state, and the position to fetch from."""

    state: PartitionState
    version: int
    position: FetchPosition
    leader_epoch: int
    """-1 where the known leader is that of another topic of this name."""
    topic_id: UUID
    """The id by which to fetch the topic; zero to fetch it by its name."""
    is_other: bool
    """True if the metadata has another id of the topic than the one in which the position is."""
    of_follower: bool = False


def asked_at(state: PartitionState, version: int, position: FetchPosition, leader: Leader) -> AskedPartition:
    """Fetch by the id of the topic in which the position is; by its name only where the metadata has no ids."""
    if leader.topic_id in (state.topic_id, ZERO_UUID):
        return AskedPartition(state, version, position, leader.epoch, leader.topic_id, False)
    # The epoch is that of another topic, which says nothing about the position.
    return AskedPartition(state, version, position, NO_EPOCH, state.topic_id, True)
