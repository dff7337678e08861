"""Test that read_committed leaves out aborted and open transactions, with or without snapshots and indexes."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.records.control import ControlRecordType
from spark_kafkalog.fs.interface import FileSystem
from spark_kafkalog.offline import replica_directory
from spark_kafkalog.offline.aborted_transactions import Walk
from spark_kafkalog.offline.corrupt_log import CorruptLogError
from spark_kafkalog.offline.segment_pieces import Segment
from tests.broker.log.support import temporary_directory
from tests.spark_kafkalog.offline.written import batch, marker, offsets, plan, write_segment, write_snapshot

COMMITTED = {"kafka.isolation.level": "read_committed"}


class Step(NamedTuple):
    """One step of a producer: records of a transaction (or of none), or its end; maybe in a new segment."""

    producer: int
    act: str
    size: int
    rolls: bool


class History:
    """Batches of a log as steps make them, and what is committed of it."""

    def __init__(self, steps: list[Step]) -> None:
        self.segments: list[list[bytes]] = [[]]
        self.bases = [0]
        self.committed: list[int] = []
        self.all: list[int] = []
        self.aborted: list[tuple[int, int, int, int]] = []
        self.under_way_at: dict[int, dict[int, int]] = {0: {}}
        offset = 0
        waiting: dict[int, list[int]] = {}
        under_way: dict[int, int] = {}
        for step in steps:
            if step.rolls and self.segments[-1]:
                self.segments.append([])
                self.bases.append(offset)
                self.under_way_at[offset] = dict(under_way)
            records = list(range(offset, offset + step.size))
            sent = partial(batch, offset, step.size, producer_id=step.producer, producer_epoch=0, base_sequence=offset)
            if step.act == "plain":
                self.segments[-1].append(sent())
                self.committed += records
            elif step.act == "send":
                self.segments[-1].append(sent(is_transactional=True))
                waiting.setdefault(step.producer, []).extend(records)
                under_way.setdefault(step.producer, offset)
            else:
                kind = ControlRecordType.COMMIT if step.act == "commit" else ControlRecordType.ABORT
                self.segments[-1].append(marker(offset, step.producer, kind))
                records = []
                ended = waiting.pop(step.producer, [])
                first = under_way.pop(step.producer, None)
                if step.act == "commit":
                    self.committed += ended
                elif first is not None:
                    self.aborted.append((len(self.segments) - 1, step.producer, first, offset))
            self.all += records
            offset += step.size if records else 1
        self.end = offset
        self.under_way_at[offset] = dict(under_way)
        self.stable = min(under_way.values(), default=offset)
        self.committed = sorted(n for n in self.committed if n < self.stable)

    def write(self, directory: Path, *, index_every: int, indexed: set[int], snapshots: set[int]) -> None:
        """`indexed`: which segments' transaction indexes there are."""
        for number, (base, segment) in enumerate(zip(self.bases, self.segments, strict=True)):
            write_segment(directory, segment, base=base, index_every=index_every)
            rows = [
                struct.pack(">hqqqq", 0, producer, first, last, 0)
                for at, producer, first, last in self.aborted
                if at == number
            ]
            if rows and number in indexed:
                (directory / f"{base:020d}.txnindex").write_bytes(b"".join(rows))
        for offset in snapshots & self.under_way_at.keys():
            write_snapshot(directory, offset, self.under_way_at[offset])


steps = st.lists(
    st.builds(
        Step,
        st.integers(1, 3),
        st.sampled_from(["send", "send", "send", "commit", "abort", "plain"]),
        st.integers(1, 4),
        st.booleans(),
    ),
    min_size=1,
    max_size=30,
)


@settings(max_examples=200)
@given(
    steps,
    st.integers(0, 3),
    st.sampled_from([1, 100, 300, 1 << 20]),
    st.none() | st.integers(1, 5),
    st.integers(0, 1000),
    st.booleans(),
)
def test_what_is_committed_is_read(
    drawn: list[Step], index_every: int, most_bytes: int, most_records: int | None, seed: int, have_snapshots: bool
) -> None:
    chance = random.Random(seed)
    history = History(drawn)
    with temporary_directory() as root:
        history.write(
            root / "t-0",
            index_every=index_every,
            indexed={n for n in range(len(history.segments)) if chance.random() < 0.5},
            snapshots=set(history.under_way_at) if have_snapshots else set(),
        )
        options: dict[str, object] = {"maxBytesPerPartition": most_bytes, **COMMITTED}
        if most_records is not None:
            options["maxRecordsPerPartition"] = most_records
        assert offsets(root, **options) == history.committed
        assert offsets(root, maxBytesPerPartition=most_bytes) == history.all
        limit = chance.randrange(history.stable + 1)
        between = {"startingOffsets": f'{{"t":{{"0":{limit}}}}}'}
        assert offsets(root, **options, **between) == [n for n in history.committed if n >= limit]


def test_a_damaged_snapshot_is_not_used(tmp_path: Path) -> None:
    history = History([Step(1, "send", 3, False), Step(2, "plain", 4, False)])
    history.write(tmp_path / "t-0", index_every=1, indexed=set(), snapshots=set(history.under_way_at))
    for path in (tmp_path / "t-0").glob("*.snapshot"):
        path.write_bytes(b"\0" * path.stat().st_size)
    assert offsets(tmp_path, **COMMITTED) == []
    assert offsets(tmp_path) == list(range(7))


def test_a_marker_that_cannot_be_read_decides_nothing(tmp_path: Path) -> None:
    history = History([Step(1, "send", 3, False), Step(1, "commit", 1, False), Step(1, "plain", 2, False)])
    history.write(tmp_path / "t-0", index_every=0, indexed=set(), snapshots=set())
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    at = len(history.segments[0][0])
    data[at + 70] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptLogError, match=f"{path} is damaged at position {at}, where a transaction of producer 1"):
        offsets(tmp_path, **COMMITTED)


MARKER_DAMAGE = {"offset": 0, "length": 11, "magic": 16, "checksum": 17, "attributes": 22, "producer": 50, "record": 70}
"""Positions in a marker's batch at which a bit flips, by the name of the field there."""


@pytest.mark.parametrize("where", MARKER_DAMAGE.values(), ids=MARKER_DAMAGE.keys())
@pytest.mark.parametrize("act", ["commit", "abort"])
@pytest.mark.parametrize("have_snapshots", [True, False])
def test_a_marker_that_is_not_found_decides_nothing(tmp_path: Path, where: int, act: str, have_snapshots: bool) -> None:
    """Aborted records must not come back as committed ones, nor the log end where the transaction began."""
    steps = [Step(1, "send", 3, False), Step(1, act, 1, False), Step(2, "plain", 2, False), Step(2, "plain", 20, True)]
    history = History(steps)
    history.write(
        tmp_path / "t-0",
        index_every=1,
        indexed=set(),
        snapshots={0, history.end} & set(history.under_way_at) if have_snapshots else set(),
    )
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    at = len(history.segments[0][0])
    data[at + where] ^= 0x80 if where == 0 else 0x20
    path.write_bytes(bytes(data))
    for options in ({}, {"failOnDataLoss": False}, {"maxRecordsPerPartition": 2}):
        with pytest.raises(CorruptLogError, match=f"{path} is damaged at position {at}"):
            offsets(tmp_path, **COMMITTED, **options)
    if have_snapshots:
        # Known to end where the log does; what begins behind the damage has nothing to do with it.
        behind = {"startingOffsets": f'{{"t":{{"0":{history.bases[1]}}}}}'}
        assert offsets(tmp_path, **COMMITTED, **behind) == list(range(history.bases[1], history.end))


def test_damage_outside_of_transactions_is_skipped(tmp_path: Path) -> None:
    steps = [Step(1, "send", 3, False), Step(1, "abort", 1, False), Step(2, "plain", 2, False)]
    history = History([*steps, Step(3, "send", 2, False), Step(3, "commit", 1, False), Step(2, "plain", 1, False)])
    history.write(tmp_path / "t-0", index_every=1, indexed=set(), snapshots=set())
    path = tmp_path / "t-0" / f"{0:020d}.log"
    data = bytearray(path.read_bytes())
    at = sum(map(len, history.segments[0][:2]))
    data[at + 16] ^= 0x20
    path.write_bytes(bytes(data))
    assert offsets(tmp_path, failOnDataLoss=False, **COMMITTED) == [6, 7, 9]
    with pytest.raises(CorruptLogError, match=f"{path} is damaged at position {at}"):
        offsets(tmp_path, **COMMITTED)


def test_the_index_spares_looking_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aborted transaction that goes on behind a piece, and an index that tells: no more is read than the piece."""
    sends = [Step(1, "send", 1, n % 10 == 9) for n in range(60)]
    history = History([*sends, Step(1, "abort", 1, False), Step(1, "plain", 1, False)])
    history.write(tmp_path / "t-0", index_every=1, indexed=set(range(10)), snapshots=set(history.under_way_at))
    opened: list[str] = []

    def counting(fs: FileSystem, segments: Iterable[Segment], since: int, at: int | None = None) -> Walk:
        def counted() -> Iterator[Segment]:
            for each in segments:
                opened.append(each.path)
                yield each

        return replica_directory.walk(fs, counted(), since, at)

    monkeypatch.setattr("spark_kafkalog.offline.piece_reader.walk", counting)
    assert offsets(tmp_path, **COMMITTED, maxBytesPerPartition=1) == [61]
    pieces = sum(len(task.pieces) for task in plan(tmp_path, **COMMITTED, maxBytesPerPartition=1))
    assert len(opened) < 1.5 * pieces
