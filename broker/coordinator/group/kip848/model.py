"""The parts of a group of the consumer protocol: members, their states, and sets of partitions.

Epochs (KIP-848): the group epoch grows whenever the members, their subscriptions or the subscribed topics change; the
assignment epoch is the group epoch that the target assignment was made for; a member's epoch is the assignment epoch
that the member has been led to. When all three are equal for every member, the group is stable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.group.kip848.formats import log_records as log

Assignment: TypeAlias = Mapping[UUID, frozenset[int]]
"""Partitions by topic id; a topic without partitions does not appear."""

NO_PARTITIONS: Assignment = MappingProxyType({})

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
STATIC_LEAVE_EPOCH = -2
"""Special epochs in a heartbeat: the member joins; leaves; leaves for a while and keeps its partitions."""


class MemberState(IntEnum):
    """The progress of a member towards its target assignment; the numbers are those of the log."""

    STABLE = 0
    """It owns exactly its target assignment of its epoch."""
    UNREVOKED_PARTITIONS = 1
    """It must give partitions back before it can go on to the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is in its target's epoch, and other members still own partitions of its target."""
    UNKNOWN = 127
    """A state that a newer release wrote; the member must start again."""

    @classmethod
    def of(cls, number: int) -> MemberState:
        try:
            return cls(number)
        except ValueError:
            return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """The classic part of a member that uses the classic protocol in a consumer group (KIP-848's online migration)."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]
    """Name and embedded subscription of each supported assignor, the preferred first."""


@dataclass(frozen=True, slots=True)
class Member:
    """A member. A change makes a new one (`dataclasses.replace`)."""

    member_id: str
    epoch: int = 0
    previous_epoch: int = -1
    """The epoch before `epoch`: a member sends it if it did not get the response with the newer one."""
    state: MemberState = MemberState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    """The time that the member may take to give partitions back."""
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    server_assignor: str | None = None
    assigned: Assignment = field(default_factory=dict)
    """The partitions that the member owns, or may own as soon as it learns of them."""
    pending_revocation: Assignment = field(default_factory=dict)
    """The partitions that the member must give back."""
    classic: ClassicMetadata | None = None
    """Set for a member that uses the classic protocol."""

    def is_reconciled_to(self, epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == epoch


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """A topic as a group last saw it. `racks` of each partition's replicas; empty where no broker has a rack."""

    topic_id: UUID
    name: str
    partitions: int
    racks: Mapping[int, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matched at `timestamp_ms`, in `version` of the cluster's metadata."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


def count_partitions(assignment: Assignment) -> int:
    return sum(map(len, assignment.values()))


def assignment_of(topics: Iterable[log.TopicPartitions]) -> Assignment:
    """Return an assignment from the structures of a record; topics that appear twice are joined."""
    found: dict[UUID, set[int]] = {}
    for topic in topics:
        if topic.partitions:
            found.setdefault(topic.topic_id, set()).update(topic.partitions)
    return {topic_id: frozenset(partitions) for topic_id, partitions in found.items()}


def topic_partitions(assignment: Assignment) -> list[log.TopicPartitions]:
    """Return an assignment as the structures of a record, in a fixed order."""
    return [
        log.TopicPartitions(topic_id=topic_id, partitions=sorted(assignment[topic_id]))
        for topic_id in sorted(assignment)
    ]
