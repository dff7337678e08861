"""`filterPushdown`: filters on topic, partition, offset and timestamp narrow the ranges that are read.

If the ranges alone satisfy a filter, Spark need not apply it again. A filter that only bounds the ranges goes back to
Spark, which applies it to every row as if nothing had been pushed down.

No filters come here in the versions of PySpark that mix up those of several reads (`compat.pushed_filters`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

from spark_kafkalog.offsets import Lookup, OffsetRange
from spark_kafkalog.options.limits import LATEST

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_NEVER_NULL = ("topic", "partition", "offset")


@dataclass(frozen=True)
class Interval:
    """Whole numbers lo <= n < hi; if `among` is given, only those in it."""

    lo: float = -math.inf
    hi: float = math.inf
    among: frozenset[int] | None = None

    def meet(self, other: Interval) -> Interval:
        among = self.among if other.among is None else other.among
        if self.among is not None and other.among is not None:
            among = self.among & other.among
        return Interval(max(self.lo, other.lo), min(self.hi, other.hi), among)

    def __contains__(self, number: int) -> bool:
        return self.lo <= number < self.hi and (self.among is None or number in self.among)


@dataclass(frozen=True)
class Bounds:
    """The part of the log that passes the pushed filters."""

    topics: frozenset[str] | None = None
    partitions: Interval = Interval()
    offsets: Interval = Interval()
    not_before: float = -math.inf
    """Milliseconds since 1970. Records with an earlier timestamp do not pass."""


def push(filters: Iterable[Filter]) -> tuple[Bounds, list[Filter]]:
    """Return the bounds of a conjunction of filters, and the filters that Spark must still apply."""
    bounds, remaining = Bounds(), []
    for each in filters:
        found = _bounded(bounds, each)
        bounds, exact = (bounds, False) if found is None else found
        if not exact:
            remaining.append(each)
    return bounds, remaining


def narrow(ranges: Iterable[OffsetRange], bounds: Bounds, lookup: Lookup) -> list[OffsetRange]:
    """Cut ranges to the bounds, and drop those that become empty.

    A timestamp bounds only the start of a range. Timestamps need not grow with the offsets, but no record before the
    first late enough one is late enough. That holds for the records that existed when the broker was asked.
    """
    found = []
    for part in ranges:
        if part.tp.partition not in bounds.partitions:
            continue
        if bounds.topics is not None and part.tp.topic not in bounds.topics:
            continue
        among = bounds.offsets.among
        lo = bounds.offsets.lo if among is None else max(bounds.offsets.lo, min(among, default=math.inf))
        hi = bounds.offsets.hi if among is None else min(bounds.offsets.hi, max(among, default=-math.inf) + 1)
        start, end = max(part.start, lo), min(part.end, hi)
        if start < end:
            found.append(OffsetRange(part.tp, int(start), int(end)))
    if bounds.not_before < 0 or not found:
        return found
    if bounds.not_before == math.inf:
        return []
    ends = lookup(dict.fromkeys((part.tp for part in found), LATEST))
    firsts = lookup(dict.fromkeys((part.tp for part in found), int(bounds.not_before)))
    late = []
    for part in found:
        first = firsts.get(part.tp, part.start)
        # Without a match, no record that existed is late enough.
        start = max(part.start, ends.get(part.tp, part.start) if first < 0 else first)
        if start < part.end:
            late.append(OffsetRange(part.tp, start, part.end))
    return late


def _bounded(bounds: Bounds, condition: Filter) -> tuple[Bounds, bool] | None:
    """Return the bounds with one more filter, and whether they express all of it; None for an unsupported filter."""
    column: tuple[str, ...] = getattr(condition, "attribute", ())
    if len(column) != 1:
        return None
    name = column[0].lower()
    if isinstance(condition, IsNotNull):
        return (bounds, True) if name in _NEVER_NULL else None
    if name == "topic":
        return _topics(bounds, condition)
    if name == "timestamp":
        earliest = _not_before(condition)
        return None if earliest is None else (replace(bounds, not_before=max(bounds.not_before, earliest)), False)
    interval = _interval(condition) if name in ("partition", "offset") else None
    if interval is None:
        return None
    if name == "partition":
        return replace(bounds, partitions=bounds.partitions.meet(interval)), True
    exact = interval.among is None or len(interval.among) <= 1
    return replace(bounds, offsets=bounds.offsets.meet(interval)), exact


def _topics(bounds: Bounds, condition: Filter) -> tuple[Bounds, bool] | None:
    values = _values(condition, str)
    if values is None:
        return None
    return replace(bounds, topics=values if bounds.topics is None else bounds.topics & values), True


def _interval(condition: Filter) -> Interval | None:
    if (values := _values(condition, int)) is not None:
        return Interval(among=values)
    value = getattr(condition, "value", None)
    if type(value) is not int:
        return None
    match condition:
        case GreaterThan():
            return Interval(lo=value + 1)
        case GreaterThanOrEqual():
            return Interval(lo=value)
        case LessThan():
            return Interval(hi=value)
        case LessThanOrEqual():
            return Interval(hi=value + 1)
    return None


def _not_before(condition: Filter) -> float | None:
    """Return the earliest millisecond that passes; a record's timestamp has whole milliseconds."""
    values = _values(condition, datetime)
    if values is not None:
        return min((_milliseconds(value) for value in values), default=math.inf) if _aware(values) else None
    value = getattr(condition, "value", None)
    if not isinstance(condition, GreaterThan | GreaterThanOrEqual) or not isinstance(value, datetime):
        return None
    if not _aware([value]):
        return None
    whole = _milliseconds(value)
    after_it = isinstance(condition, GreaterThan) and _microseconds(value) % 1000 == 0
    return whole + 1 if after_it else whole


def _values(condition: Filter, kind: type) -> frozenset[Any] | None:
    """Return the values of `=` or `in`, all of one type; None for any other condition. Null equals nothing."""
    if isinstance(condition, EqualTo):
        given: tuple[Any, ...] = (condition.value,)
    elif isinstance(condition, In):
        given = tuple(value for value in condition.value if value is not None)
    else:
        return None
    return frozenset(given) if all(isinstance(value, kind) and type(value) is not bool for value in given) else None


def _aware(values: Iterable[datetime]) -> bool:
    return all(value.tzinfo is not None for value in values)


def _microseconds(value: datetime) -> int:
    since = value - _EPOCH
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def _milliseconds(value: datetime) -> int:
    """Return the milliseconds since 1970, rounded up."""
    return -(-_microseconds(value) // 1000)
