"""Cut ranges of offsets into tasks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from spark_kafkalog.offsets import OffsetRange


class Measure(Protocol):
    """Measures ranges: by their offsets, or by their bytes (`byte_sizes`)."""

    def weight(self, part: OffsetRange) -> int:
        """Return the weight of a range."""

    def divide(self, part: OffsetRange, count: int) -> list[OffsetRange]:
        """Cut a range into at most `count` pieces of about the same weight, none of them empty."""


class ByOffsets:
    """Measures ranges by their offsets, as Spark's own source does."""

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
    """Cut ranges into tasks of at most `max_records` offsets and at most `max_weight`.

    If that makes fewer than `min_partitions` tasks, cut further, to about that many. The pieces of a partition stay
    next to each other. Empty ranges are dropped.
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
    # Ranges that stay whole take one task each; the other ranges share the remaining tasks by their weight.
    whole = [_share(weight, total, min_partitions) == 1 for weight in weights]
    rest_total = total - sum(weight for weight, stays in zip(weights, whole, strict=True) if stays)
    rest_tasks = max(min_partitions - sum(whole), 1)
    return [
        piece
        for part, weight, stays in zip(cut, weights, whole, strict=True)
        for piece in by.divide(part, 1 if stays else _share(weight, rest_total, rest_tasks))
    ]


def _share(size: int, total: int, tasks: int) -> int:
    """Return `size / total * tasks`, rounded to the nearest integer (halves up), at least 1."""
    return max((2 * size * tasks + total) // (2 * total), 1)


def divide(part: OffsetRange, count: int) -> list[OffsetRange]:
    """Cut a range into at most `count` pieces with about the same number of offsets, none of them empty."""
    pieces = []
    start, remaining = part.start, part.size
    for index in range(count):
        size = remaining // (count - index)
        remaining -= size
        if size > 0:
            pieces.append(OffsetRange(part.tp, start, start + size))
        start += size
    return pieces
