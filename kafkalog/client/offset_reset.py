"""Where a group's committed offsets are moved to: the rules of ``kafka-consumer-groups.sh --reset-offsets``.

Pure: what the group has committed and what the logs hold is given, the new offsets come out. What a rule names outside
of a partition's log is moved to the nearest end of it, with a warning, as Kafka's tool does; so a group is never left
with a position that its consumers would have to reset.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple, TypeAlias

from kafkalog.client.types import TopicPartition


class ResetError(ValueError):
    """A rule that cannot be applied to a partition; the message names it."""


class LogRange(NamedTuple):
    """The offsets that a partition has: ``start`` is the log start offset, ``end`` the high watermark."""

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
    """The committed offset and so many more, or fewer where ``by`` is negative."""

    by: int


class ToTimestamp(NamedTuple):
    """The first record that is not older (ms since 1970)."""

    timestamp: int


class ToPlan(NamedTuple):
    """An offset for each partition, as an earlier plan had it."""

    offsets: Mapping[TopicPartition, int]


Rule: TypeAlias = To | ToOffset | ShiftBy | ToTimestamp | ToPlan


class Plan(NamedTuple):
    """The offsets to commit, sorted by partition, and what the user should know of them."""

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
    """The new offsets of a group in ``partitions``.

    Args:
        committed: what the group has committed; partitions without are not in it.
        logs: the range of each of ``partitions``.
        at_time: for `ToTimestamp`, the offset of the first record that is not older, -1 where every record is.

    Raises:
        ResetError: nothing is committed that could be shifted, or the plan lacks a partition.
    """
    offsets: dict[TopicPartition, int] = {}
    warnings: list[str] = []
    for tp in sorted(set(partitions)):
        log = logs[tp]
        if isinstance(rule, ToTimestamp):
            found = (at_time or {}).get(tp, -1)
            if found < 0:
                warnings.append(f"no record of partition {tp} is that late: its offset becomes the latest, {log.end}")
            offsets[tp] = log.end if found < 0 else found
        elif rule is To.CURRENT:
            # What is committed stays, wherever it is; only a partition without one gets the end of the log.
            offsets[tp] = committed.get(tp, log.end)
        else:
            offsets[tp] = _within(tp, _wanted(rule, tp, committed, log), log, warnings)
    return Plan(offsets, warnings)


def _wanted(rule: Rule, tp: TopicPartition, committed: Mapping[TopicPartition, int], log: LogRange) -> int:
    """What the rule says of a partition, be it in the log or not."""
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
