"""The rules by which a group's committed offsets are moved: those of `kafka-consumer-groups.sh --reset-offsets`.

These are functions of values: from the committed offsets and the ranges of the logs to the new offsets. An offset
outside of a partition's log is moved to the nearest end of the log, with a warning, as Kafka's tool does. So a group
never gets a position that its consumers would have to reset.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from kafkalog.client.types import TopicPartition


class ResetError(ValueError):
    """A rule that cannot be applied to a partition; the message names it."""


class LogRange(NamedTuple):
    """The offsets of a partition's log: `start` is the log start offset, `end` the high watermark."""

    start: int
    end: int


class To(Enum):
    """Rules that need no value."""

    EARLIEST = "earliest"
    LATEST = "latest"
    CURRENT = "current"


class ToOffset(NamedTuple):
    """The same offset in every partition."""

    offset: int


class ShiftBy(NamedTuple):
    """The committed offset plus `by`, which may be negative."""

    by: int


class ToTimestamp(NamedTuple):
    """The offset of the first record that is not older than a timestamp (ms since 1970)."""

    timestamp: int


class ToPlan(NamedTuple):
    """An offset for each partition, taken from an earlier plan."""

    offsets: Mapping[TopicPartition, int]


Rule: TypeAlias = To | ToOffset | ShiftBy | ToTimestamp | ToPlan


class Plan(NamedTuple):
    """The offsets to commit, sorted by partition, and warnings for the user."""

    offsets: dict[TopicPartition, int]
    warnings: list[str]


def plan_reset(
    rule: Rule,
    partitions: Collection[TopicPartition],
    *,
    committed: Mapping[TopicPartition, int],
    logs: Mapping[TopicPartition, LogRange],
    at_time: Mapping[TopicPartition, int] | None = None,
) -> Plan:
    """Plan the new offsets of a group in `partitions`.

    Args:
        rule: How the offsets are moved.
        partitions: The partitions to plan for.
        committed: The group's committed offsets, without partitions that have none.
        logs: The range of each partition's log; not needed where `To.CURRENT` keeps a committed offset.
        at_time: For `ToTimestamp`, the offset of the first record that is not older; -1 where all records are older.

    Raises:
        ResetError: A partition has no committed offset to shift, or the earlier plan does not have the partition.
    """
    offsets: dict[TopicPartition, int] = {}
    warnings: list[str] = []
    for tp in sorted(set(partitions)):
        if rule is To.CURRENT and tp in committed:
            # A committed offset stays, wherever it is. Only a partition without one gets the end of the log.
            offsets[tp] = committed[tp]
            continue
        log = logs[tp]
        if isinstance(rule, ToTimestamp):
            found = (at_time or {}).get(tp, -1)
            if found < 0:
                warnings.append(f"no record of partition {tp} is that late: its offset becomes the latest, {log.end}")
            offsets[tp] = log.end if found < 0 else found
        else:
            offsets[tp] = _within(tp, _wanted(rule, tp, committed, log), log, warnings)
    return Plan(offsets, warnings)


def _wanted(rule: Rule, tp: TopicPartition, committed: Mapping[TopicPartition, int], log: LogRange) -> int:
    """Apply the rule to a partition; the offset may be outside of the log."""
    if isinstance(rule, ToOffset):
        return rule.offset
    if isinstance(rule, ShiftBy):
        if tp not in committed:
            raise ResetError(f"cannot shift the offset of partition {tp}: the group has committed none")
        return committed[tp] + rule.by
    if isinstance(rule, ToPlan):
        if tp not in rule.offsets:
            raise ResetError(f"the plan has no offset for partition {tp}")
        return rule.offsets[tp]
    return log.start if rule is To.EARLIEST else log.end


def _within(tp: TopicPartition, offset: int, log: LogRange, warnings: list[str]) -> int:
    if offset > log.end:
        warnings.append(f"new offset {offset} of partition {tp} is higher than the latest: it becomes {log.end}")
        return log.end
    if offset < log.start:
        warnings.append(f"new offset {offset} of partition {tp} is lower than the earliest: it becomes {log.start}")
        return log.start
    return offset
