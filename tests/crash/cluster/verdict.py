"""Compares what clients were told with what a log has: lost, doubled and reordered records, and errors. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise

from confluent_kafka import KafkaError

MOST = 5
"""The number of examples of each kind of fault."""


def faults(acknowledged: Mapping[bytes, int | None], sent: Iterable[bytes], found: Mapping[int, bytes]) -> list[str]:
    """Return what is wrong with one partition's log; nothing if all is well.

    Args:
        acknowledged: The values with the offsets that the producer was told; None where it was told none.
        sent: All values in the order in which they were sent, each different from the others.
        found: The log's values by offset.
    """
    order = {value: number for number, value in enumerate(sent)}
    there = list(found.values())
    first: dict[bytes, int] = {}
    doubled = []
    for offset, value in found.items():
        if first.setdefault(value, offset) != offset:
            doubled.append(f"{value!r} is at {first[value]} and at {offset}")
    lost = [f"{value!r}, acknowledged at {offset}" for value, offset in acknowledged.items() if value not in first]
    moved = [
        f"{value!r} was acknowledged at {offset} and is at {first[value]}"
        for value, offset in acknowledged.items()
        if value in first and offset is not None and first[value] != offset
    ]
    strange = [f"{value!r}" for value in there if value not in order]
    known = [value for value in there if value in order]
    reordered = [
        f"{after!r} comes after {before!r}" for before, after in pairwise(known) if order[after] < order[before]
    ]
    return [
        f"{len(each)} {kind}: {'; '.join(each[:MOST])}"
        for kind, each in (
            ("lost", lost),
            ("doubled", doubled),
            ("moved", moved),
            ("reordered", reordered),
            ("never sent", strange),
        )
        if each
    ]


COVERED = {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT}
"""The errors that librdkafka reports while it connects or sends again by itself."""


def beyond_retries(errors: Mapping[int, int]) -> list[str]:
    """Return the errors that a consumer saw and that retries do not cover; `errors` counts them by their codes."""
    return [
        f"the consumer saw {count} times {KafkaError(code).name()}"
        for code, count in sorted(errors.items())
        if code not in COVERED
    ]


def changed(read: Mapping[int, bytes], found: Mapping[int, bytes]) -> list[str]:
    """Return the records that a consumer has read and that are not in the log any more, or not the same."""
    gone = [
        f"{offset}: {value!r} is now {found.get(offset)!r}"
        for offset, value in read.items()
        if found.get(offset) != value
    ]
    return [f"{len(gone)} changed after they were read: {'; '.join(gone[:MOST])}"] if gone else []
