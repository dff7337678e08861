"""The ranges of offsets that a batch query or a micro-batch reads, and the losses to report.

The rules are those of Spark's Kafka source, so that a query plans the same ranges with either source.
"""

from __future__ import annotations

from kafkalog.client.types import TopicPartition
from spark_kafkalog.data_loss import Condition, Report
from spark_kafkalog.offsets import Lookup, OffsetRange, Offsets, Position, names
from spark_kafkalog.options.limits import EARLIEST
from spark_kafkalog.options.parsing import OptionsError


def batch_ranges(starts: Offsets, ends: Offsets) -> list[OffsetRange]:
    """Return the ranges of a batch query in the order of their partitions, without empty ones.

    Raises:
        OptionsError: A start lies beyond its end.
    """
    for tp in sorted(starts.keys() & ends.keys()):
        if starts[tp] > ends[tp]:
            raise OptionsError(f"The start offset {starts[tp]} of {tp} lies beyond its end offset {ends[tp]}")
    return [
        OffsetRange(tp, starts[tp], ends[tp]) for tp in sorted(starts.keys() & ends.keys()) if starts[tp] < ends[tp]
    ]


def stream_ranges(start: Position, end: Position, lookup: Lookup, report: Report) -> list[OffsetRange]:
    """Return the ranges of a micro-batch in the order of their partitions.

    Partitions that are missing in `start` are new. They begin at their earliest offset, and so do those of a topic
    that was created again. `report` is called for each such topic, for new partitions that do not begin at 0 or are
    deleted already, for deleted partitions, and for offsets that went backwards. If it returns, planning goes on
    without the lost offsets.
    """
    recreated = start.recreated(end)
    known = start.surviving(end)
    new = sorted(end.offsets.keys() - known.keys())
    found = lookup(dict.fromkeys(new, EARLIEST)) if new else {}
    # A log that was trimmed since the batch was planned may begin behind the batch's end. Cut the loss off there: the
    # next batch reports the rest.
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
