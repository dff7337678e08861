"""Cuts segments into pieces, and packs pieces into tasks: pure functions over offsets, sizes and index entries.

A piece is a range of offsets of one segment, and the range of bytes that contains them; a task is a few pieces. Within
a partition the pieces' offsets follow each other without overlap. So no offset is read twice, even if positions are
wrong: positions only reduce the bytes to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from kafkalog.storage.index_arrays import OffsetEntries

OPEN_COST = 4 << 20
"""The cost of opening a file in bytes, when tasks are packed, as `spark.sql.files.openCostInBytes`."""
_TRIES = 8
"""Index entries tried one after another if the best one does not point at a batch."""

Check = Callable[[int, int], int | None]
"""(position, most): returns the base offset of the valid batch at a position, if it is at most `most`."""


@dataclass(frozen=True)
class Segment:
    """A segment file as it was when the query was planned."""

    path: str
    base: int
    end: int
    """The first offset of the next segment; in the last segment, the end of the log."""
    size: int
    """Valid bytes: the whole file, or in the last segment those up to the end of its last valid batch."""
    file_size: int
    modified: int
    is_tail: bool
    """True if it is the last segment with bytes in it, whose end may be torn without being damaged."""


@dataclass(frozen=True)
class SegmentPiece:
    """Offsets [start, end) of a partition, which lie in the bytes [position, until) of a segment."""

    topic: str
    partition: int
    segment: Segment
    start: int
    end: int
    position: int
    until: int
    first: int | None
    """Base offset of the batch at `position`; None if it was not read."""

    @property
    def size(self) -> int:
        return self.until - self.position


class Place(NamedTuple):
    """A batch's position, and its base offset; None if it was not read (at the beginning of a file)."""

    position: int
    first: int | None


def floor(entries: OffsetEntries, offset: int, check: Check) -> Place:
    """Return the last place in the index whose first batch begins at or before `offset`."""
    last = int(np.searchsorted(entries.offsets, offset, "right")) - 1
    for at in range(last, max(last - _TRIES, -1), -1):
        position = int(entries.positions[at])
        first = check(position, min(offset, int(entries.offsets[at])))
        if first is not None:
            return Place(position, first)
    return Place(0, None)


def ceiling(entries: OffsetEntries, offset: int, size: int, check: Check) -> int:
    """Return a position in a segment of `size` bytes from which on all batches begin at or after `offset`."""
    # The append that adds an entry ends at the entry's offset, so the next entry's batches begin behind that.
    after = int(np.searchsorted(entries.offsets, offset - 1, "left")) + 1
    for at in range(after, min(after + _TRIES, len(entries.offsets))):
        position = int(entries.positions[at])
        first = check(position, int(entries.offsets[at]))
        if first is not None and first >= offset:
            return position
    return size


def pieces_of(
    topic: str,
    partition: int,
    segment: Segment,
    start: int,
    end: int,
    entries: OffsetEntries,
    check: Check,
    most_bytes: int,
    most_records: int | None,
) -> list[SegmentPiece]:
    """Cut offsets [start, end) of a segment into pieces of about `most_bytes` and at most `most_records` offsets.

    Without valid index entries, the bytes of a segment are not divided.
    """
    start, end = max(start, segment.base), min(end, segment.end)
    if start >= end or segment.size == 0:
        return []
    begin = floor(entries, start, check) if start > segment.base else Place(0, None)
    until = ceiling(entries, end, segment.size, check) if end < segment.end else segment.size
    places = [begin, *_cuts(entries, begin, until, (start, end), check, most_bytes)]
    bounds = [*places, Place(until, end)]
    pieces = []
    for at, (here, behind) in enumerate(pairwise(bounds)):
        first = start if at == 0 else here.first
        assert first is not None
        assert behind.first is not None
        whole = SegmentPiece(topic, partition, segment, first, behind.first, here.position, behind.position, here.first)
        pieces += _by_offsets(whole, entries, check, most_records)
    return pieces


def _cuts(
    entries: OffsetEntries, begin: Place, until: int, offsets: tuple[int, int], check: Check, most_bytes: int
) -> list[Place]:
    """Return places strictly within the bytes, spread about evenly, with increasing offsets."""
    count = math.ceil((until - begin.position) / most_bytes)
    cuts: list[Place] = []
    last, low = begin.position, offsets[0]
    for number in range(1, count):
        wanted = begin.position + (until - begin.position) * number // count
        near = int(np.searchsorted(entries.positions, wanted, "left"))
        for at in range(near, min(near + _TRIES, len(entries.positions))):
            position = int(entries.positions[at])
            if not last < position < until:
                continue
            first = check(position, int(entries.offsets[at]))
            if first is not None and low < first < offsets[1]:
                cuts.append(Place(position, first))
                last, low = position, first
                break
    return cuts


def _by_offsets(piece: SegmentPiece, entries: OffsetEntries, check: Check, most: int | None) -> list[SegmentPiece]:
    if most is None or piece.end - piece.start <= most:
        return [piece]
    parts = []
    for start in range(piece.start, piece.end, most):
        end = min(start + most, piece.end)
        place = floor(entries, start, check)
        if place.position < piece.position:
            place = Place(piece.position, piece.first)
        until = min(ceiling(entries, end, piece.until, check), piece.until) if end < piece.end else piece.until
        parts.append(
            SegmentPiece(piece.topic, piece.partition, piece.segment, start, end, place.position, until, place.first)
        )
    return parts


def pack(pieces: Iterable[SegmentPiece], most_bytes: int, most_records: int | None) -> list[list[SegmentPiece]]:
    """Pack pieces into tasks in their order. Small segments share a task, as Spark packs small files."""
    tasks: list[list[SegmentPiece]] = []
    filled = offsets = 0
    for piece in pieces:
        cost, count = piece.size + OPEN_COST, piece.end - piece.start
        fits = filled + cost <= most_bytes and (most_records is None or offsets + count <= most_records)
        if not tasks or not fits:
            tasks.append([])
            filled = offsets = 0
        tasks[-1].append(piece)
        filled += cost
        offsets += count
    return tasks


class Replica(NamedTuple):
    """The properties that decide between directories of the same partition."""

    directory: str
    epoch: int
    end: int


def choose(replicas: Iterable[Replica]) -> Replica:
    """Choose the directory to read: the one with the latest leader epoch, then the longest, then the first by name."""
    return min(replicas, key=lambda each: (-each.epoch, -each.end, each.directory))


def task_bytes(total: int, most_bytes: int, min_tasks: int | None) -> int:
    """Return the bytes of a task: `most_bytes`, or less if `total` would make fewer than `min_tasks`."""
    return most_bytes if min_tasks is None else max(min(most_bytes, total // min_tasks), 1)


def total_size(segments: Sequence[tuple[Segment, int, int]]) -> int:
    """Estimate the bytes in [start, end) of segments, by the share of their offsets."""
    total = 0
    for segment, start, end in segments:
        wanted = min(end, segment.end) - max(start, segment.base)
        if wanted > 0:
            total += segment.size * wanted // (segment.end - segment.base)
    return total
