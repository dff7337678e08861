"""Planning over maps of offsets: where to start and end, what to read in a trigger, how to cut it into tasks.

Pure functions: what brokers know comes in as maps, or as a ``Lookup`` that is asked; losses go to ``report``. The
rules are those of Spark's Kafka source, so that a query plans the same with either.

An offset is the position of the next record to read (last + 1). Its JSON form is ``{"topic":{"0":42}}``, the form of
``startingOffsets`` and of the checkpoints of Spark's source. PySpark compares offsets as JSON text, therefore
``to_json`` orders topics by name and partitions by number.

The start of the first batch needs care: Spark gives a Python source no place to store it, and asks for it again when
the first batch is repeated after a crash, when ``latest`` may have moved. So the end of the first batch carries its
start (``with_initial``) through Spark's offset log: planning that batch again finds the start that was meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

from kafkalog.client.types import TopicPartition

from .data_loss import Condition, Report
from .options import EARLIEST, LATEST, AtEnd, AtOffsets, AtTimestamp, AtTimestamps, Limit, OptionsError

Offsets = Mapping[TopicPartition, int]
Lookup = Callable[[Mapping[TopicPartition, int]], Offsets]
"""Timestamps (ms; -2 earliest, -1 latest) to offsets; -1 where no record is that late. Partitions that are gone
are missing from the answer."""

_INT64_MAX = (1 << 63) - 1
_INITIAL = "initial:"
"""Marks a topic's start in the end of the first batch; ':' cannot be part of a topic's name."""

OffsetJson = dict[str, dict[str, int]]


class OffsetRange(NamedTuple):
    """Offsets [start, end) of one partition."""

    tp: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Number of offsets: at least the number of records (compaction and transaction markers leave gaps)."""
        return self.end - self.start


# ---------------------------------------------------------------------------------------------- JSON form


def to_json(offsets: Offsets) -> OffsetJson:
    """The document whose text is the same whenever the offsets are."""
    document: OffsetJson = {}
    for tp, offset in sorted(offsets.items()):
        document.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return document


def from_json(document: Mapping[str, Any]) -> dict[TopicPartition, int]:
    """Positions of an offset document, without a start that the first batch carries."""
    return _parse({topic: partitions for topic, partitions in document.items() if not topic.startswith(_INITIAL)})


def with_initial(document: OffsetJson, initial: Offsets) -> OffsetJson:
    """The end of the first batch, which carries the start of that batch (an empty one, too)."""
    return document | {_INITIAL + topic: partitions for topic, partitions in (to_json(initial) or {"": {}}).items()}


def initial_of(document: Mapping[str, Any]) -> dict[TopicPartition, int] | None:
    """The start that the end of a first batch carries, or None in any other offset."""
    carried = {
        topic.removeprefix(_INITIAL): partitions for topic, partitions in document.items() if topic.startswith(_INITIAL)
    }
    return _parse(carried) if carried else None


def _parse(document: Mapping[str, Any]) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in document.items()
            for partition, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f'{document} is no offset of this source; expected e.g. {{"topicA":{{"0":23,"1":42}}}}. The checkpoint '
            "may belong to a query with another source."
        ) from None


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
                f"Specified: {_names(limit.timestamps)} Assigned: {_names(assigned)}"
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
            f"Specified: {_names(named)} Assigned: {_names(assigned)}"
        )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return f"Set({', '.join(str(tp) for tp in sorted(partitions))})"


# ---------------------------------------------------------------------------------------------- one trigger


def rate_limited(start: Offsets, latest: Offsets, earliest_of_new: Offsets, most: int) -> dict[TopicPartition, int]:
    """Ends of a batch of about ``most`` offsets (``maxOffsetsPerTrigger``), shared in proportion to what is waiting.

    Small partitions are not starved: a share below one offset becomes one, so the total may pass ``most`` by fewer
    than the number of partitions. ``earliest_of_new``: where the partitions begin that ``start`` does not have.
    """
    begins = {tp: start.get(tp, earliest_of_new.get(tp)) for tp in latest}
    sizes = {tp: latest[tp] - begin for tp, begin in begins.items() if begin is not None and latest[tp] > begin}
    total = sum(sizes.values())
    ends = dict(latest)
    for tp, size in sizes.items():
        begin = begins[tp]
        assert begin is not None
        ends[tp] = min(latest[tp], begin + max(most * size // total, 1), _INT64_MAX)
    return ends


def waiting(start: Offsets, latest: Offsets) -> int:
    """Number of offsets between two positions; a new partition counts from 0."""
    return sum(offset - start.get(tp, 0) for tp, offset in latest.items())


def is_held_back(start: Offsets, latest: Offsets, least: int, since_last_s: float, max_delay_s: float) -> bool:
    """Whether to wait for more: fewer than ``least`` new offsets (``minOffsetsPerTrigger``), and not too long yet."""
    return since_last_s < max_delay_s and waiting(start, latest) < least


def check_available_now(end: Offsets, target: Offsets, latest: Offsets) -> None:
    """What Trigger.AvailableNow promises: an end within the target fixed at the start, which the brokers still have.

    Raises RuntimeError with the condition's name where topics changed under the query.
    """
    if end.keys() != target.keys():
        raise RuntimeError(
            "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED] Topic partitions changed between the "
            f"start of the query ({_names(target)}) and this batch ({_names(end)}). Restart the query."
        )
    if lost := end.keys() - latest.keys():
        raise RuntimeError(
            "[LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW] Topic partitions are gone that the query "
            f"is to read: {_names(lost)}. Restart the query."
        )
    for tp, offset in end.items():
        if offset > target[tp]:
            raise RuntimeError(
                "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED] The end offset of "
                f"{tp} is {offset}, beyond {target[tp]}, where the partition ended when the query began. "
                "Restart the query."
            )
        if offset > latest[tp]:
            raise RuntimeError(
                "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_LATEST_WITH_TRIGGER_AVAILABLENOW] The end "
                f"offset of {tp} is {offset}, but the partition now ends at {latest[tp]}: the topic may have been "
                "deleted and created again. Restart the query."
            )


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


def stream_ranges(start: Offsets, end: Offsets, lookup: Lookup, report: Report) -> list[OffsetRange]:
    """Ranges of a micro-batch, in the order of their partitions.

    Partitions that ``start`` does not have are new and begin at their earliest offset. ``report`` is told of new
    partitions that do not begin at 0 or are gone again, of deleted ones, and of offsets that went backwards; when it
    returns, the batch goes on without them.
    """
    new = sorted(end.keys() - start.keys())
    begins = lookup(dict.fromkeys(new, EARLIEST)) if new else {}
    if missing := [tp for tp in new if tp not in begins]:
        report(Condition.INITIAL_OFFSET_NOT_FOUND, f"Cannot find the earliest offsets of {_names(missing)}.")
    for tp in new:
        if begins.get(tp, 0) != 0:
            report(Condition.ADDED_PARTITION, f"Added partition {tp} starts from {begins[tp]} instead of 0.")
    if gone := start.keys() - end.keys():
        report(Condition.PARTITIONS_DELETED, f"{_names(gone)} are gone.")
    ranges = []
    for tp in sorted(end):
        begin = start.get(tp, begins.get(tp))
        if begin is None:
            continue
        if end[tp] < begin:
            report(Condition.OFFSET_CHANGED, f"Partition {tp}'s offset was changed from {begin} to {end[tp]}.")
        elif end[tp] > begin:
            ranges.append(OffsetRange(tp, begin, end[tp]))
    return ranges


def split(ranges: Iterable[OffsetRange], min_partitions: int | None, max_records: int | None) -> list[OffsetRange]:
    """Cut ranges into tasks: none above ``max_records`` offsets, then about ``min_partitions`` of them if still fewer.

    Pieces of a partition stay beside each other. Empty ranges are dropped.
    """
    cut = [part for part in ranges if part.size > 0]
    if max_records is not None:
        cut = [piece for part in cut for piece in _divide(part, -(-part.size // max_records))]
    if min_partitions is None or len(cut) >= min_partitions:
        return cut
    total = sum(part.size for part in cut)
    # Ranges that stay whole leave their share of the tasks, and of the total, to the rest.
    whole = [_share(part.size, total, min_partitions) == 1 for part in cut]
    rest_total = total - sum(part.size for part, stays in zip(cut, whole, strict=True) if stays)
    rest_tasks = max(min_partitions - sum(whole), 1)
    return [
        piece
        for part, stays in zip(cut, whole, strict=True)
        for piece in _divide(part, 1 if stays else _share(part.size, rest_total, rest_tasks))
    ]


def _share(size: int, total: int, tasks: int) -> int:
    """``size / total * tasks``, rounded to the nearest (halves up), at least 1."""
    return max((2 * size * tasks + total) // (2 * total), 1)


def _divide(part: OffsetRange, count: int) -> list[OffsetRange]:
    pieces = []
    start, remaining = part.start, part.size
    for index in range(count):
        size = remaining // (count - index)
        remaining -= size
        if size > 0:
            pieces.append(OffsetRange(part.tp, start, start + size))
        start += size
    return pieces
