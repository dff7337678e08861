"""How far a group is behind in each partition. Pure: what was read of the group and of the logs comes in as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkalog.client.admin.group_descriptions import CommittedOffset, GroupDescription, GroupMember
from kafkalog.client.types import TopicPartition


class PartitionLag(NamedTuple):
    """A partition of a group: who reads it, what is committed, where the log ends.

    ``member`` is None where nobody has the partition, ``committed`` where nothing is committed, ``end`` (the high
    watermark) where it is not known: the partition has no leader, or is no more.
    """

    partition: TopicPartition
    committed: CommittedOffset | None
    end: int | None
    member: GroupMember | None

    @property
    def lag(self) -> int | None:
        """Offsets that are committed by nobody, records or not; below 0 where the log was truncated below them."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


def lags(
    description: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
) -> list[PartitionLag]:
    """Every partition that a member has, those of who has most first, and then those that are only committed."""
    found: list[PartitionLag] = []
    assigned: set[TopicPartition] = set()
    for member in sorted(description.members, key=lambda each: -len(each.assignment)):
        assigned.update(member.assignment)
        found += [PartitionLag(tp, committed.get(tp), ends.get(tp), member) for tp in member.assignment]
    found += [PartitionLag(tp, committed[tp], ends.get(tp), None) for tp in sorted(committed) if tp not in assigned]
    return found
