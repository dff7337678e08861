"""Test that planning covers every batch once, whatever the indexes say."""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.storage.index_arrays import OffsetEntries
from spark_kafkalog.offline import segment_pieces
from spark_kafkalog.offline.segment_pieces import Replica, Segment
from tests.broker.log.support import temporary_directory
from tests.spark_kafkalog.offline import written
from tests.spark_kafkalog.offline.written import batch, write_segment


@st.composite
def logs(draw: st.DrawFn) -> list[list[tuple[int, int]]]:
    """Segments of (base offset, records) batches; offsets may have gaps, as compaction leaves them."""
    offset = draw(st.integers(0, 5))
    segments = []
    for _ in range(draw(st.integers(1, 4))):
        segment = []
        for _ in range(draw(st.integers(1, 8))):
            count = draw(st.integers(1, 5))
            segment.append((offset, count))
            offset += count + draw(st.sampled_from([0, 0, 0, 1, 7]))
        segments.append(segment)
    return segments


@settings(max_examples=150)
@given(
    log=logs(),
    index_every=st.integers(0, 3),
    most_bytes=st.sampled_from([1, 60, 100, 250, 1000, 1 << 20]),
    most_records=st.none() | st.integers(1, 9),
    min_tasks=st.none() | st.integers(1, 20),
    limits=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    lies=st.integers(0, 3),
    seed=st.integers(0, 1000),
)
def test_every_record_once(
    log: list[list[tuple[int, int]]],
    index_every: int,
    most_bytes: int,
    most_records: int | None,
    min_tasks: int | None,
    limits: tuple[float, float],
    lies: int,
    seed: int,
) -> None:
    """Over real files: whatever sizes tasks are to have, wherever the range begins and ends, whatever indexes say."""
    chance = random.Random(seed)
    with temporary_directory() as root:
        for segment in log:
            path = write_segment(root / "t-0", [batch(base, count) for base, count in segment], index_every=index_every)
            damage_index(path.with_suffix(".index"), lies, chance)
        there = [n for segment in log for base, count in segment for n in range(base, base + count)]
        first, end = log[0][0][0], there[-1] + 1
        start, stop = sorted(first + round((end - first) * each) for each in limits)
        options = {
            "startingOffsets": json.dumps({"t": {"0": start}}),
            "endingOffsets": json.dumps({"t": {"0": stop}}),
            "maxBytesPerPartition": most_bytes,
        }
        if most_records is not None:
            options["maxRecordsPerPartition"] = most_records
        if min_tasks is not None:
            options["minPartitions"] = min_tasks
        assert written.offsets(root, **options) == [n for n in there if start <= n < stop]
        pieces = [piece for task in written.plan(root, **options) for piece in task.pieces]
        assert all(a.end <= b.start for a, b in pairwise(pieces))
        if most_records is not None:
            assert all(piece.end - piece.start <= most_records for piece in pieces)


def damage_index(path: Path, lies: int, chance: random.Random) -> None:
    """Change some bytes of an index, cut it off, or fill it up as that of an active segment is."""
    if not path.exists():
        return
    data = bytearray(path.read_bytes())
    for _ in range(lies):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    if lies == 3:
        del data[chance.randrange(len(data) + 1) :]
    path.write_bytes(bytes(data) + bytes(chance.choice([0, 0, 800])))


SIZE = 10


@st.composite
def indexed_segments(draw: st.DrawFn) -> tuple[Segment, list[int], OffsetEntries]:
    """A segment of batches of SIZE bytes, the batches' base offsets, and an index that may lie."""
    bases = sorted(draw(st.sets(st.integers(100, 200), min_size=1, max_size=30)))
    end = bases[-1] + draw(st.integers(1, 5))
    places = draw(
        st.lists(st.tuples(st.integers(90, 210), st.integers(0, len(bases) * SIZE)), max_size=12)
        | st.lists(st.integers(0, len(bases) - 1).map(lambda at: ([*bases, end][at + 1] - 1, at * SIZE)), max_size=12)
    )
    import numpy as np

    entries = OffsetEntries(
        np.array(sorted({offset for offset, _ in places}), np.int64)[: len({p for _, p in places})],
        np.array(sorted({position for _, position in places}), np.int64)[: len({o for o, _ in places})],
    )
    size = len(bases) * SIZE
    segment = Segment("x.log", 100, end, size, size, 0, False)
    return segment, bases, entries


@given(
    indexed_segments(),
    st.integers(95, 210),
    st.integers(95, 210),
    st.integers(1, 200),
    st.none() | st.integers(1, 40),
)
def test_pieces_hold_each_batch_once(
    drawn: tuple[Segment, list[int], OffsetEntries], start: int, end: int, most_bytes: int, most_records: int | None
) -> None:
    segment, bases, entries = drawn

    def check(position: int, most: int) -> int | None:
        at, rest = divmod(position, SIZE)
        return bases[at] if not rest and at < len(bases) and bases[at] <= most else None

    pieces = segment_pieces.pieces_of("t", 0, segment, start, end, entries, check, most_bytes, most_records)
    low, high = max(start, segment.base), min(end, segment.end)
    if low >= high:
        assert pieces == []
        return
    # The offsets wanted, cut without gap or overlap …
    assert [piece.start for piece in pieces] == [low, *(piece.end for piece in pieces[:-1])]
    assert pieces[-1].end == high
    for piece in pieces:
        # … and each piece's bytes hold all batches with offsets of it.
        needed = [
            at * SIZE
            for at, (base, behind) in enumerate(zip(bases, [*bases[1:], segment.end], strict=True))
            if base < piece.end and behind > piece.start
        ]
        assert not needed or (piece.position <= needed[0] or is_gap(bases, segment.end, piece.start, piece.position))
        assert not needed or needed[-1] < piece.until


def is_gap(bases: list[int], end: int, start: int, position: int) -> bool:
    """Return whether the piece begins behind the records of the batch that its first offset would belong to."""
    return position // SIZE < len(bases) and bases[position // SIZE] <= start


@given(st.lists(st.tuples(st.integers(1, 100), st.integers(0, 100)), max_size=30), st.integers(1, 300))
def test_packing_keeps_order_and_bounds(sizes: list[tuple[int, int]], most: int) -> None:
    cost = segment_pieces.OPEN_COST
    segment = Segment("x", 0, 1000, 1000, 1000, 0, False)
    pieces = [
        segment_pieces.SegmentPiece("t", 0, segment, n, n + count, 0, size, None)
        for n, (size, count) in enumerate(sizes)
    ]
    tasks = segment_pieces.pack(pieces, most + 3 * cost, 150)
    assert [piece for task in tasks for piece in task] == pieces
    for task in tasks:
        assert len(task) == 1 or sum(piece.size + cost for piece in task) <= most + 3 * cost
        assert len(task) == 1 or sum(piece.end - piece.start for piece in task) <= 150


def test_min_partitions_makes_tasks_smaller() -> None:
    assert segment_pieces.task_bytes(1000, 128, None) == 128
    assert segment_pieces.task_bytes(1000, 1 << 20, 4) == 250
    assert segment_pieces.task_bytes(0, 1 << 20, 4) == 1


def test_the_replica_of_the_latest_epoch_then_the_longest_is_read() -> None:
    old, short, long = Replica("a", 3, 900), Replica("b", 4, 100), Replica("c", 4, 120)
    assert segment_pieces.choose([old, short, long]) == long
    assert segment_pieces.choose([old, short]) == short
    assert segment_pieces.choose([Replica("z", 4, 120), long]) == long
