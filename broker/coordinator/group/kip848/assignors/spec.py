"""The input and the result of an assignor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from broker.coordinator.group.kip848.model import Assignment

Partition: TypeAlias = tuple[UUID, int]


class AssignorError(Exception):
    """The group cannot be assigned: an assignor's own fault, or topics that do not exist."""


@dataclass(frozen=True, slots=True)
class MemberSpec:
    """A member as an assignor sees it. `topics` are those of its subscription that exist."""

    topics: frozenset[UUID]
    instance_id: str | None = None
    assigned: Assignment = field(default_factory=dict)
    """Its current target."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """A group as an assignor sees it: members by id, and how many partitions each subscribed topic has."""

    members: Mapping[str, MemberSpec]
    partitions: Mapping[UUID, int]

    @property
    def is_homogeneous(self) -> bool:
        """Whether all members are subscribed to the same topics."""
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
"""Gives every member of the group its target, which may be empty. The same group gets the same result."""


def partitions_of(assignment: Assignment) -> Iterator[Partition]:
    """Yield the partitions one by one, in a fixed order."""
    for topic_id in sorted(assignment):
        for partition in sorted(assignment[topic_id]):
            yield topic_id, partition


def grouped(partitions: Mapping[UUID, set[int]]) -> Assignment:
    """Return the assignment of these sets, which must not change any more."""
    return {topic_id: frozenset(some) for topic_id, some in partitions.items() if some}
