"""Planning over maps of offsets: where to start and end, which ranges to read, how to cut them into tasks.

Pure functions: what brokers know comes in as maps, or as a ``Lookup`` that is asked; losses go to ``report``. The
rules are those of Spark's Kafka source, so that a query plans the same with either.

An offset is the position of the next record to read (last + 1). Its JSON form is ``{"topic":{"0":42}}``, the form of
``startingOffsets`` and of the checkpoints of Spark's source. PySpark compares offsets as JSON text, therefore
``to_json`` orders topics by name and partitions by number.

A topic that was deleted and created again has offsets that mean other records, so a position carries which topics it is
of: ``{"topic":{"0":42},"id:J2zBe_1rTjG0dC4QO1bWWg:topic":{}}``. The id is in a key, and what it holds is empty: whoever
looks for partitions or offsets, Spark's own source and ``startingOffsets`` included, finds those of topics alone.

The start of the first batch needs care: Spark gives a Python source no place to store it, and asks for it again when
the first batch is repeated after a crash, when ``latest`` may have moved. So the end of the first batch carries its
start (``with_initial``) through Spark's offset log: planning that batch again finds the start that was meant.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from kafkalog.client.types import TopicPartition

from .data_loss import Condition, Report
from .options import EARLIEST, LATEST, AtEnd, AtOffsets, AtTimestamp, AtTimestamps, Limit, OptionsError

Offsets = Mapping[TopicPartition, int]
Lookup = Callable[[Mapping[TopicPartition, int]], Offsets]
"""Timestamps (ms; -2 earliest, -1 latest) to offsets; -1 where no record is that late. Partitions that are gone
are missing from the answer."""

_ID = "id:"
"""Marks a topic's id; ':' cannot be part of a topic's name, nor of an id."""
_INITIAL = "initial:"
"""Marks a topic's start in the end of the first batch."""

OffsetJson = dict[str, dict[str, int]]


class Position(NamedTuple):
    """Offsets, and which topics they are of: `topic_mark` of each topic by name, where that is known."""

    offsets: Offsets
    topics: Mapping[str, str] = {}

    def recreated(self, now: Position) -> set[str]:
        """Topics that are not the ones they were: deleted and created again in between."""
        return {topic for topic, mark in self.topics.items() if now.topics.get(topic, mark) != mark}

    def surviving(self, now: Position) -> dict[TopicPartition, int]:
        """The offsets that still mean something: those of topics that were not created again."""
        gone = self.recreated(now)
        return {tp: offset for tp, offset in self.offsets.items() if tp.topic not in gone}


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets: at least the number of records (compaction and transaction markers leave gaps)."""
        return self.end - self.start


def topic_mark(topic_id: UUID) -> str | None:
    """A topic's id as Kafka's tools write it; None for a topic without one (brokers before 2.8)."""
    return urlsafe_b64encode(topic_id.bytes).rstrip(b"=").decode() if topic_id.int else None


# ---------------------------------------------------------------------------------------------- JSON form


def to_json(position: Offsets | Position) -> OffsetJson:
    """The document whose text is the same whenever the position is."""
    offsets, marks = position if isinstance(position, Position) else (position, {})
    document: OffsetJson = {}
    for tp, offset in sorted(offsets.items()):
        document.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return document | {f"{_ID}{marks[topic]}:{topic}": {} for topic in list(document) if topic in marks}


def position_of(document: Mapping[str, Any]) -> Position:
    """The position that an offset document stands for, without a start that the first batch carries."""
    return _parse({topic: partitions for topic, partitions in document.items() if not topic.startswith(_INITIAL)})


def from_json(document: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """The offsets of an offset document."""
    return dict(position_of(document).offsets)


def with_initial(document: OffsetJson, initial: Offsets | Position) -> OffsetJson:
    """The end of the first batch, which carries the start of that batch (an empty one, too)."""
    return document | {_INITIAL + topic: partitions for topic, partitions in (to_json(initial) or {"": {}}).items()}


def initial_of(document: Mapping[str, Any]) -> Position | None:
    """The start that the end of a first batch carries, or None in any other offset."""
    carried = {
        topic.removeprefix(_INITIAL): partitions for topic, partitions in document.items() if topic.startswith(_INITIAL)
    }
    return _parse(carried) if carried else None


def _parse(document: Mapping[str, Any]) -> Position:
    offsets: dict[TopicPartition, int] = {}
    marks: dict[str, str] = {}
    try:
        for topic, partitions in document.items():
            if topic.startswith(_ID):
                mark, _, name = topic.removeprefix(_ID).partition(":")
                marks[name] = mark
            for partition, offset in partitions.items():
                offsets[TopicPartition(topic, int(partition))] = int(offset)
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f'{document} is no offset of this source; expected e.g. {{"topicA":{{"0":23,"1":42}}}}. The checkpoint '
            "may belong to a query with another source."
        ) from None
    return Position(offsets, marks)


# ---------------------------------------------------------------------------------------------- limits to offsets


def resolve(
    limit: Limit, assigned: Collection[TopicPartition], lookup: Lookup, *, starting: bool
) -> dict[TopicPartition, int]:
    """The offset in each assigned partition that ``limit`` stands for.

    Raises OptionsError where ``limit`` names other partitions than the assigned ones, and, for a start, where no
    record is as late as a timestamp (unless ``startingOffsetsByTimestampStrategy=latest``).
    """
    if isinstance(limit, AtEnd):
        wanted = dict.fromkeys(assigned, limit.which)
    elif isinstance(limit, AtOffsets):
        _check_named(limit.offsets, assigned, "startingOffsets" if starting else "endingOffsets")
        wanted = dict(limit.offsets)
    else:
        wanted = _by_timestamp(limit, assigned, lookup, starting)
    ends = {tp: offset for tp, offset in wanted.items() if offset in (EARLIEST, LATEST)}
    found = lookup(ends) if ends else {}
    for tp in ends:
        if tp not in found:
            raise OptionsError(f"{tp} does not exist, or was deleted while the query was planned")
    return wanted | {tp: found[tp] for tp in ends}


def _by_timestamp(
    limit: AtTimestamp | AtTimestamps, assigned: Collection[TopicPartition], lookup: Lookup, starting: bool
) -> dict[TopicPartition, int]:
    if isinstance(limit, AtTimestamp):
        times = dict.fromkeys(assigned, limit.timestamp)
    else:
        side = "starting" if starting else "ending"
        if limit.timestamps.keys() != set(assigned):
            raise OptionsError(
                f"If {side}OffsetsByTimestamp contains specific offsets, you must specify all topics. "
                f"Specified: {names(limit.timestamps)} Assigned: {names(assigned)}"
            )
        times = dict(limit.timestamps)
    for tp, time in times.items():
        if time < 0:
            raise OptionsError(f"timestamp {time} of {tp} is negative; milliseconds since 1970 are expected")
    found = lookup(times) if times else {}
    offsets = {tp: found.get(tp, LATEST) for tp in times}
    if starting and not limit.latest_if_none:
        for tp, offset in offsets.items():
            if offset == LATEST:
                raise OptionsError(f"No offset matched from request of topic-partition {tp} and timestamp {times[tp]}.")
    return offsets


def _check_named(named: Offsets, assigned: Collection[TopicPartition], option: str) -> None:
    if named.keys() != set(assigned):
        raise OptionsError(
            f"If {option} contains specific offsets, you must specify all TopicPartitions.\n"
            "Use -1 for latest, -2 for earliest, if you don't care.\n"
            f"Specified: {names(named)} Assigned: {names(assigned)}"
        )


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as Spark's messages show a set of them."""
    return f"Set({', '.join(str(tp) for tp in sorted(partitions))})"


# ---------------------------------------------------------------------------------------------- ranges to read


def batch_ranges(starts: Offsets, ends: Offsets) -> list[OffsetRange]:
    """Ranges of a batch query, in the order of their partitions; those without records are dropped.

    Raises OptionsError where a start lies beyond its end.
    """
    for tp in sorted(starts.keys() & ends.keys()):
        if starts[tp] > ends[tp]:
            raise OptionsError(f"The start offset {starts[tp]} of {tp} lies beyond its end offset {ends[tp]}")
    return [
        OffsetRange(tp, starts[tp], ends[tp]) for tp in sorted(starts.keys() & ends.keys()) if starts[tp] < ends[tp]
    ]


def stream_ranges(start: Position, end: Position, lookup: Lookup, report: Report) -> list[OffsetRange]:
    """Ranges of a micro-batch, in the order of their partitions.

    Partitions that ``start`` does not have are new and begin at their earliest offset, and so do those of a topic that
    was created again. ``report`` is told of such topics, of new partitions that do not begin at 0 or are gone again, of
    deleted ones, and of offsets that went backwards; when it returns, the batch goes on without what is lost.
    """
    recreated = start.recreated(end)
    known = start.surviving(end)
    new = sorted(end.offsets.keys() - known.keys())
    found = lookup(dict.fromkeys(new, EARLIEST)) if new else {}
    # A log that was trimmed since the batch was planned may begin behind its end: what lies behind is the next batch's.
    begins = {tp: min(begin, end.offsets[tp]) for tp, begin in found.items()}
    for topic in sorted(recreated):
        report(Condition.TOPIC_RECREATED, _recreation(topic, start.offsets, begins))
    if missing := [tp for tp in new if tp not in begins]:
        ends = ", ".join(f"{tp}: {end.offsets[tp]}" for tp in missing)
        report(
            Condition.INITIAL_OFFSET_NOT_FOUND,
            f"Cannot find the earliest offsets of {names(missing)}, which were to be read up to ({ends}).",
        )
    for tp in new:
        if tp.topic not in recreated and (begin := begins.get(tp, 0)) != 0:
            report(
                Condition.ADDED_PARTITION,
                f"Added partition {tp} starts from {begin} instead of 0: {_lost(tp, 0, begin)}.",
            )
    if gone := sorted(tp for tp in start.offsets.keys() - end.offsets.keys() if tp.topic not in recreated):
        read = ", ".join(f"{tp}: {start.offsets[tp]}" for tp in gone)
        report(Condition.PARTITIONS_DELETED, f"{names(gone)} are gone; they were read up to ({read}).")
    ranges = []
    for tp in sorted(end.offsets):
        first, until = known.get(tp, begins.get(tp)), end.offsets[tp]
        if first is None:
            continue
        if until < first:
            report(
                Condition.OFFSET_CHANGED,
                f"Partition {tp}'s offset was changed from {first} to {until}, {first - until} offsets back.",
            )
        elif until > first:
            ranges.append(OffsetRange(tp, first, until))
    return ranges


def _recreation(topic: str, read: Offsets, begins: Offsets) -> str:
    before = ", ".join(f"{tp}: {offset}" for tp, offset in sorted(read.items()) if tp.topic == topic)
    after = ", ".join(f"{tp}: {offset}" for tp, offset in sorted(begins.items()) if tp.topic == topic)
    lost = [_lost(tp, 0, offset) for tp, offset in sorted(begins.items()) if tp.topic == topic and offset]
    return (
        f"Topic {topic} was deleted and created again. The deleted one was read up to ({before}), and what it held "
        f"beyond is lost; the new one begins at ({after}){'; ' if lost else ''}{', '.join(lost)}."
    )


def _lost(tp: TopicPartition, start: int, end: int) -> str:
    return f"{end - start} offsets [{start}, {end}) of {tp} are lost"


class Measure(Protocol):
    """What makes a range large: its offsets, or its bytes (``sizes``)."""

    def weight(self, part: OffsetRange) -> int:
        """How large a range is."""

    def divide(self, part: OffsetRange, count: int) -> list[OffsetRange]:
        """Up to ``count`` pieces of about the same weight, none of them empty."""


class ByOffsets:
    """The measure of Spark's own source."""

    def weight(self, part: OffsetRange) -> int:
        return part.size

    def divide(self, part: OffsetRange, count: int) -> list[OffsetRange]:
        return divide(part, count)


def split(
    ranges: Iterable[OffsetRange],
    min_partitions: int | None,
    max_records: int | None,
    max_weight: int | None = None,
    measure: Measure | None = None,
) -> list[OffsetRange]:
    """Cut ranges into tasks: none above ``max_records`` offsets or ``max_weight``, and about ``min_partitions``.

    The number counts where the other limits make fewer. Pieces of a partition stay beside each other. Empty ranges are
    dropped.
    """
    by = ByOffsets() if measure is None else measure
    cut = [part for part in ranges if part.size > 0]
    if max_records is not None:
        cut = [piece for part in cut for piece in divide(part, -(-part.size // max_records))]
    if max_weight is not None:
        cut = [piece for part in cut for piece in by.divide(part, -(-by.weight(part) // max_weight))]
    if min_partitions is None or len(cut) >= min_partitions:
        return cut
    weights = [by.weight(part) for part in cut]
    total = sum(weights)
    # Ranges that stay whole leave their share of the tasks, and of the total, to the rest.
    whole = [_share(weight, total, min_partitions) == 1 for weight in weights]
    rest_total = total - sum(weight for weight, stays in zip(weights, whole, strict=True) if stays)
    rest_tasks = max(min_partitions - sum(whole), 1)
    return [
        piece
        for part, weight, stays in zip(cut, weights, whole, strict=True)
        for piece in by.divide(part, 1 if stays else _share(weight, rest_total, rest_tasks))
    ]


def _share(size: int, total: int, tasks: int) -> int:
    """``size / total * tasks``, rounded to the nearest (halves up), at least 1."""
    return max((2 * size * tasks + total) // (2 * total), 1)


def divide(part: OffsetRange, count: int) -> list[OffsetRange]:
    """Pieces of a range with about the same number of offsets, none of them empty."""
    pieces = []
    start, remaining = part.start, part.size
    for index in range(count):
        size = remaining // (count - index)
        remaining -= size
        if size > 0:
            pieces.append(OffsetRange(part.tp, start, start + size))
        start += size
    return pieces
