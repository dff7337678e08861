"""Consumer groups and their members as values, and how the coordinators' answers become these values."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog.client.consumer.classic.protocol import PROTOCOL_TYPE, decode_assignment
from kafkalog.client.metadata import Broker
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages import consumer_group_describe as next_generation
from kafkalog.protocol.messages import describe_groups as classic

CLASSIC_TYPE, CONSUMER_TYPE = "Classic", "Consumer"
EMPTY, DEAD = "Empty", "Dead"
"""The states of a group without members, and of a group that does not exist."""


class GroupListing(NamedTuple):
    """A group in a list; `state` and `type` are empty where the broker is too old to report them."""

    group: str
    protocol_type: str
    state: str
    type: str


class GroupMember(NamedTuple):
    """A member of a group."""

    member_id: str
    instance_id: str | None
    """Its `group.instance.id`; None for a dynamic member."""
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...]
    """Its partitions, sorted."""
    target: tuple[TopicPartition, ...] | None = None
    """The partitions that the coordinator wants it to have (KIP-848); None in the classic protocol."""
    epoch: int = -1
    """Its member epoch (KIP-848); -1 in the classic protocol."""


class GroupDescription(NamedTuple):
    """A group as its coordinator sees it; `state` is `DEAD` where no group has that name."""

    group: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    """The name of the assignor. The coordinator of a classic group knows it only while the group is stable."""
    coordinator: Broker
    members: tuple[GroupMember, ...]
    epoch: int = -1
    """The group epoch (KIP-848); -1 in the classic protocol."""
    assignment_epoch: int = -1
    """The epoch of the target assignment (KIP-848); -1 in the classic protocol."""


class CommittedOffset(NamedTuple):
    """A committed position: the next offset to read, and the note committed with it.

    `leader_epoch` is that of the last record read, -1 where it is unknown.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class MemberToRemove(NamedTuple):
    """A member to remove: by its member id, or a static member by its `group.instance.id`."""

    member_id: str = ""
    instance_id: str | None = None


def is_of_consumers(protocol_type: str) -> bool:
    """Tell whether a group is one of consumers, or only stores offsets.

    Other groups are those of Kafka Connect, for example.
    """
    return protocol_type in (PROTOCOL_TYPE, "")


def of_classic(group: classic.DescribedGroup, coordinator: Broker) -> GroupDescription:
    """Describe a group of the classic protocol.

    Assignments are decoded where the members are consumers; other protocols (`connect`) have formats of their own.

    Raises:
        MalformedMemberDataError: A member's assignment cannot be decoded.
    """
    consumers = group.protocol_type == PROTOCOL_TYPE
    members = tuple(
        GroupMember(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            _assigned(each.member_assignment) if consumers else (),
        )
        for each in group.members
    )
    return GroupDescription(
        group.group_id,
        CLASSIC_TYPE,
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        coordinator,
        members,
    )


def of_next_generation(group: next_generation.DescribedGroup, coordinator: Broker) -> GroupDescription:
    """Describe a group of the protocol of KIP-848."""
    members = tuple(
        GroupMember(
            each.member_id,
            each.instance_id,
            each.client_id,
            each.client_host,
            _partitions(each.assignment),
            _partitions(each.target_assignment),
            each.member_epoch,
        )
        for each in group.members
    )
    return GroupDescription(
        group.group_id,
        CONSUMER_TYPE,
        group.group_state,
        PROTOCOL_TYPE,
        group.assignor_name,
        coordinator,
        members,
        group.group_epoch,
        group.assignment_epoch,
    )


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    """Decode a member's assignment. In a group that is not stable it is empty, and has no bytes."""
    return tuple(sorted(decode_assignment(data).partitions)) if data else ()


def _partitions(assignment: next_generation.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, each) for topic in assignment.topic_partitions for each in topic.partitions
        )
    )
