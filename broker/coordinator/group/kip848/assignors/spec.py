"""The input and the result of an assignor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.group.kip848.model import Assignment

Partition: TypeAlias = tuple[UUID, int]


class AssignorError(Exception):
    """The assignor has failed, or a member is subscribed to a topic that does not exist."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member as an assignor sees it. `topics` are the existing topics to which it is subscribed."""

    topics: frozenset[UUID]
    instance_id: str | None = None
    assigned: Assignment = field(default_factory=dict)
    """Its target assignment before this one."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as an assignor sees it: its members by id, and the number of partitions of each subscribed topic."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Return whether all members are subscribed to the same topics."""
        return len({member.topics for member in self.members.values()}) <= 1

    def count(self, topic_id: UUID) -> int:
        """Return the number of partitions of a topic.

        Raises:
            AssignorError: the topic does not exist.
        """
        try:
            return self.partitions[topic_id]
        except KeyError:
            raise AssignorError(f"Member is subscribed to a non-existent topic {topic_id}") from None


Assignor = Callable[[GroupSpec], dict[str, Assignment]]
"""Computes the target assignment of every member, by member id. It depends on nothing but the group."""


def partitions_of(assignment: Assignment) -> Iterator[Partition]:
    """Yield the partitions one by one, in a fixed order."""
    for topic_id in sorted(assignment):
        for partition in sorted(assignment[topic_id]):
            yield topic_id, partition


def grouped(partitions: Mapping[UUID, set[int]]) -> Assignment:
    """Return an immutable copy of partitions by topic, without topics that have none."""
    return {topic_id: frozenset(some) for topic_id, some in partitions.items() if some}
