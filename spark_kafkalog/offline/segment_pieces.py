"""From segments to tasks: pure functions over offsets, sizes and index entries.

A piece is a stretch of offsets of one segment with the bytes to find them in; a task is a few pieces. Within a
partition the pieces' offsets follow each other without overlap, so that no offset is read twice whatever the positions
are worth: positions only save reading.
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
"""Bytes that opening a file counts for when tasks are filled, as ``spark.sql.files.openCostInBytes``."""
_TRIES = 8
"""Index entries tried one after another where the best one does not point at a batch."""

Check = Callable[[int, int], int | None]
"""(position, most): the base offset of the sound batch that begins at a position, if it is not above ``most``."""


@dataclass(frozen=True)
class Segment:
    """A segment file as it was when the query was planned."""

    path: str
    base: int
    end: int
    """Offsets from here on lie in later segments; in the last one: the end of the log."""
    size: int
    """Bytes that count: the whole file, or in the last segment those up to its last sound batch."""
    file_size: int
    modified: int
    is_tail: bool
    """Whether it is the last with bytes in it, so that a torn end is no damage."""


@dataclass(frozen=True)
class Piece:
    """Offsets [start, end) of a partition, to be found in the bytes [position, until) of a segment."""

    topic: str
    partition: int
    segment: Segment
    start: int
    end: int
    position: int
    until: int
    first: int | None
    """Base offset of the batch at ``position``, where it was looked at."""

    @property
    def size(self) -> int:
        return self.until - self.position


class Place(NamedTuple):
    """A batch's position, and its base offset where that was looked at (the beginning of a file was not)."""

    position: int
    first: int | None


def floor(entries: OffsetEntries, offset: int, check: Check) -> Place:
    """The last place an index tells of that is not behind ``offset``: its first batch begins at or before it."""
    last = int(np.searchsorted(entries.offsets, offset, "right")) - 1
    for at in range(last, max(last - _TRIES, -1), -1):
        position = int(entries.positions[at])
        first = check(position, min(offset, int(entries.offsets[at])))
        if first is not None:
            return Place(position, first)
    return Place(0, None)


def ceiling(entries: OffsetEntries, offset: int, size: int, check: Check) -> int:
    """A position in a segment of ``size`` bytes behind which all batches begin at or after ``offset``."""
    # What is appended at an entry ends at its offset, so the next entry's batches begin behind that.
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
) -> list[Piece]:
    """Offsets [start, end) of a segment in pieces of about ``most_bytes``, none above ``most_records`` offsets.

    Without index entries that hold, a segment stays whole as to its bytes.
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
        whole = Piece(topic, partition, segment, first, behind.first, here.position, behind.position, here.first)
        pieces += _by_offsets(whole, entries, check, most_records)
    return pieces


def _cuts(
    entries: OffsetEntries, begin: Place, until: int, offsets: tuple[int, int], check: Check, most_bytes: int
) -> list[Place]:
    """Places strictly within, about evenly spread, with increasing offsets."""
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


def _by_offsets(piece: Piece, entries: OffsetEntries, check: Check, most: int | None) -> list[Piece]:
    if most is None or piece.end - piece.start <= most:
        return [piece]
    parts = []
    for start in range(piece.start, piece.end, most):
        end = min(start + most, piece.end)
        place = floor(entries, start, check)
        if place.position < piece.position:
            place = Place(piece.position, piece.first)
        until = min(ceiling(entries, end, piece.until, check), piece.until) if end < piece.end else piece.until
        parts.append(Piece(piece.topic, piece.partition, piece.segment, start, end, place.position, until, place.first))
    return parts


def pack(pieces: Iterable[Piece], most_bytes: int, most_records: int | None) -> list[list[Piece]]:
    """Pieces in tasks, in their order: small segments share one, as Spark packs small files."""
    tasks: list[list[Piece]] = []
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
    """What decides between directories of the same partition."""

    directory: str
    epoch: int
    end: int


def choose(replicas: Iterable[Replica]) -> Replica:
    """The directory of a partition to read: that of the latest leader epoch, then the longest, then by name."""
    return min(replicas, key=lambda each: (-each.epoch, -each.end, each.directory))


def task_bytes(total: int, most_bytes: int, min_tasks: int | None) -> int:
    """Bytes of a task: ``most_bytes``, or less where ``total`` would make fewer than ``min_tasks``."""
    return most_bytes if min_tasks is None else max(min(most_bytes, total // min_tasks), 1)


def total_size(segments: Sequence[tuple[Segment, int, int]]) -> int:
    """Bytes of segments of which [start, end) are wanted, by the share of their offsets."""
    total = 0
    for segment, start, end in segments:
        wanted = min(end, segment.end) - max(start, segment.base)
        if wanted > 0:
            total += segment.size * wanted // (segment.end - segment.base)
    return total
