"""Plans of reset-offsets as CSV, the format of `--export` and `--from-file`. Pure.

A line is `topic,partition,offset` for the one group of the command, or `group,topic,partition,offset`; no heading.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO

from kafkalog.client.types import TopicPartition

Plans = Mapping[str, Mapping[TopicPartition, int]]
"""Offsets by group and partition."""


def write_plans(plans: Plans, *, with_group: bool) -> str:
    """Return the lines of plans, sorted by partition in each group."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, offsets in plans.items():
        for tp, offset in sorted(offsets.items()):
            writer.writerow((*((group,) if with_group else ()), *tp, offset))
    return out.getvalue()


def read_plans(lines: Iterable[str], groups: Iterable[str]) -> dict[str, dict[TopicPartition, int]]:
    """Parse plans from lines; lines without a group belong to the only one of `groups`.

    Raises:
        ValueError: A line is invalid. The text has the line's number.
    """
    names = list(groups)
    found: dict[str, dict[TopicPartition, int]] = {}
    for number, row in enumerate(_rows(lines), 1):
        if not row:
            continue
        if len(row) == 3:
            if len(names) != 1:
                raise ValueError(
                    f"line {number} names no group: with several groups expected group,topic,partition,offset"
                )
            row = [names[0], *row]
        if len(row) != 4:
            raise ValueError(f"line {number}: expected topic,partition,offset or group,topic,partition,offset")
        group, topic, partition, offset = (word.strip() for word in row)
        try:
            tp, position = TopicPartition(topic, int(partition)), int(offset)
        except ValueError:
            raise ValueError(f"line {number}: partition {partition!r} and offset {offset!r} must be integers") from None
        if tp in found.setdefault(group, {}):
            raise ValueError(f"line {number}: partition {tp} of group {group} a second time")
        found[group][tp] = position
    return found


def _rows(lines: Iterable[str]) -> Iterator[list[str]]:
    reader = csv.reader(lines)
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None
