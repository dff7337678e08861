"""The lag of a group in each partition: functions of values that others have read from the broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafkalog.client.admin.groups.descriptions import CommittedOffset, GroupDescription, GroupMember
from kafkalog.client.types import TopicPartition


class PartitionLag(NamedTuple):
    """A partition of a group: its member, its committed offset and the end of its log."""

    partition: TopicPartition
    committed: CommittedOffset | None
    """None where nothing is committed."""
    end: int | None
    """The high watermark. None where it is unknown, because the partition has no leader or does not exist any more."""
    member: GroupMember | None
    """None where no member has the partition."""

    @property
    def lag(self) -> int | None:
        """The offsets between the committed one and the end; below 0 where the log was truncated below it."""
        if self.committed is None or self.end is None:
            return None
        return self.end - self.committed.offset


def lags(
    description: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, int],
) -> list[PartitionLag]:
    """List the partitions of all members, largest members first, then those that are only committed."""
    found: list[PartitionLag] = []
    assigned: set[TopicPartition] = set()
    for member in sorted(description.members, key=lambda each: -len(each.assignment)):
        assigned.update(member.assignment)
        found += [PartitionLag(tp, committed.get(tp), ends.get(tp), member) for tp in member.assignment]
    found += [PartitionLag(tp, committed[tp], ends.get(tp), None) for tp in sorted(committed) if tp not in assigned]
    return found
