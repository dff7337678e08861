"""Tests of torn ends, flipped bits, missing and false files: what is read, reported and refused."""

from __future__ import annotations

import logging
import shutil
import struct
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.records.batch import read_header
from kafkalog.records.compression import Codec
from kafkalog.storage.index_arrays import OffsetEntries
from spark_kafkalog.data_loss import DataLossError
from spark_kafkalog.fs.interface import FileSystem
from spark_kafkalog.offline import piece_reader, replica_directory
from spark_kafkalog.offline.corrupt_log import CorruptLogError
from spark_kafkalog.offline.segment_pieces import Segment
from spark_kafkalog.options.parsing import OptionsError
from tests.broker.log.support import temporary_directory
from tests.spark_kafkalog.offline.written import batch, offsets, plan, reader, rows, write_segment
from tests.spark_kafkalog.without_spark import chosen

pytestmark = pytest.mark.usefixtures("checked")


def segments(root: Path, *, codec: Codec = Codec.NONE, index_every: int = 2) -> list[Path]:
    """Offsets 0..29 in three segments of five batches of two records."""
    return [
        write_segment(
            root / "t-0",
            [batch(base + n, 2, codec=codec, size=100) for n in range(0, 10, 2)],
            index_every=index_every,
        )
        for base in (0, 10, 20)
    ]


def positions(path: Path) -> list[int]:
    """Return the positions at which the batches of an undamaged segment begin."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        found.append(at)
        at += read_header(data, at).size
    return found


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("index_every", [0, 1, 2])
@pytest.mark.parametrize("size", [1, 30, 61, 200])
def test_a_torn_end_ends_the_partition(
    tmp_path: Path, index_every: int, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    last = segments(tmp_path, index_every=index_every)[-1]
    end = last.stat().st_size
    with last.open("ab") as file:
        file.write(batch(30, 2, size=100)[:size])
    caplog.set_level(logging.WARNING)
    assert offsets(tmp_path) == list(range(30))
    assert f"{last}: no sound batch in the last {size} bytes, from position {end} on" in caplog.text
    assert "ends at offset 30" in caplog.text


@given(st.integers(0, 29), st.integers(0, 7), st.booleans(), st.integers(1, 3000), st.integers(1, 5))
def test_any_flipped_bit_is_found(at: int, bit: int, indexed: bool, most_bytes: int, index_every: int) -> None:
    """Every record but those of the batch hit, in its order; the others are never lost, none comes twice."""
    with temporary_directory() as root:
        paths = segments(root, index_every=index_every if indexed else 0)
        path = paths[at // 10]
        begins = positions(path)
        begin = begins[at % 10 // 2]
        data = bytearray(path.read_bytes())
        where = begin + 17 + (at * 7 + bit) % 100  # from the checksum on
        data[where] ^= 1 << bit
        path.write_bytes(bytes(data))
        hit = {at // 2 * 2, at // 2 * 2 + 1}
        left = [n for n in range(30) if n not in hit]
        options = {"maxBytesPerPartition": most_bytes}
        assert offsets(root, failOnDataLoss=False, **options) == left
        if at >= 28:
            # The end of the log: what is torn there was never acknowledged for sure.
            assert offsets(root, **options) == left
        else:
            with pytest.raises(CorruptLogError) as raised:
                offsets(root, **options)
            assert f"{path} is damaged at position {begin} (t-0, from offset {min(hit)} on)" in str(raised.value)


@pytest.mark.parametrize("length", [0, 48, 5, 1 << 30, -1])
@pytest.mark.parametrize("index_every", [0, 1, 2, 4])
def test_a_length_that_lies(tmp_path: Path, length: int, index_every: int, caplog: pytest.LogCaptureFixture) -> None:
    path = segments(tmp_path, index_every=index_every)[1]
    at = positions(path)[2]
    data = bytearray(path.read_bytes())
    struct.pack_into(">i", data, at + 8, length)
    path.write_bytes(bytes(data))
    with pytest.raises(CorruptLogError, match=f"{path} is damaged at position {at} "):
        offsets(tmp_path)
    caplog.set_level(logging.WARNING)
    assert offsets(tmp_path, failOnDataLoss=False) == [n for n in range(30) if n not in (14, 15)]
    assert f"{path} is damaged at position {at} " in caplog.text


def test_damage_in_the_middle_of_the_last_segment_is_no_torn_end(tmp_path: Path) -> None:
    path = segments(tmp_path)[-1]
    flip(path, positions(path)[1] + 80)
    with pytest.raises(CorruptLogError, match=f"{path} is damaged at position {positions(path)[1]} "):
        offsets(tmp_path)


def test_a_time_in_a_damaged_batch(tmp_path: Path) -> None:
    """The query begins at that batch, so that the damage is told of, or skipped."""
    path = segments(tmp_path)[1]
    flip(path, positions(path)[2] + 80)
    time = {"startingTimestamp": 1_700_000_000_000 + 15}
    with pytest.raises(CorruptLogError, match=f"{path} is damaged at position {positions(path)[2]} "):
        offsets(tmp_path, **time)
    assert offsets(tmp_path, failOnDataLoss=False, **time) == list(range(16, 30))


def test_a_time_in_bytes_that_are_no_batch_any_more(tmp_path: Path) -> None:
    """The query also begins if not even a header is left. Damage before records of earlier times is passed by."""
    path = segments(tmp_path)[1]
    at = positions(path)[2]
    flip(path, at + 16)
    for record in (14, 15, 16):
        time = {"startingTimestamp": 1_700_000_000_000 + record}
        with pytest.raises(CorruptLogError, match=f"{path} is damaged at position {at} "):
            offsets(tmp_path, **time)
        assert offsets(tmp_path, failOnDataLoss=False, **time) == list(range(16, 30))
    assert offsets(tmp_path, startingTimestamp=1_700_000_000_000 + 18) == list(range(18, 30))


def test_a_time_index_that_is_cut_off_or_damaged(tmp_path: Path) -> None:
    """Times that the index does not tell are looked for in the log."""
    segments(tmp_path)
    times = b"".join(struct.pack(">qi", 1_700_000_000_000 + n, n) for n in (3, 5, 9))
    index = tmp_path / "t-0" / f"{0:020d}.timeindex"
    broken = bytearray(times)
    broken[12] ^= 0x80
    for data in (times, bytes(broken), times[:-5], b"", b"x"):
        index.write_bytes(data)
        assert offsets(tmp_path, startingTimestamp=1_700_000_000_000 + 7) == list(range(7, 30))


def test_only_what_the_query_reads_can_fail_it(tmp_path: Path) -> None:
    path = segments(tmp_path)[1]
    flip(path, positions(path)[4] + 80)
    limits = {"startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":18}}'}
    assert offsets(tmp_path, **limits) == list(range(3, 18))


def test_a_sealed_segment_that_was_cut_off(tmp_path: Path) -> None:
    path = segments(tmp_path)[0]
    data = path.read_bytes()
    path.write_bytes(data[:-50])
    with pytest.raises(CorruptLogError, match="the file ends within a batch"):
        offsets(tmp_path)
    assert offsets(tmp_path, failOnDataLoss=False) == [*range(8), *range(10, 30)]


def test_zeros_behind_the_last_batch_are_preallocated(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = segments(tmp_path)[-1]
    with path.open("ab") as file:
        file.truncate(1 << 20)
    caplog.set_level(logging.WARNING)
    assert offsets(tmp_path) == list(range(30))
    assert caplog.text == ""


def test_empty_segments(tmp_path: Path) -> None:
    segments(tmp_path)
    (tmp_path / "t-0" / f"{30:020d}.log").touch()
    (tmp_path / "t-0" / f"{5:020d}.log.deleted").write_bytes(b"x")
    (tmp_path / "t-1").mkdir()
    write_segment(tmp_path / "t-2", [], base=77)
    assert offsets(tmp_path) == list(range(30))
    # An empty partition ends where its only segment begins.
    where = '{"t":{"0":30,"1":0,"2":77}}'
    assert offsets(tmp_path, startingOffsets=where, endingOffsets=where) == []


def test_a_crash_right_after_a_roll_leaves_a_torn_segment_before_an_empty_one(tmp_path: Path) -> None:
    path = segments(tmp_path)[-1]
    path.write_bytes(path.read_bytes()[:-10])
    (tmp_path / "t-0" / f"{30:020d}.log").touch()
    assert offsets(tmp_path) == list(range(28))


def test_thousands_of_segments_share_tasks(tmp_path: Path) -> None:
    for base in range(0, 6000, 2):
        write_segment(tmp_path / "t-0", [batch(base, 2)], index_every=0)
    tasks = plan(tmp_path)
    assert [sum(len(task.pieces) for task in tasks), len(tasks) < 200] == [3000, True]
    assert offsets(tmp_path) == list(range(6000))


def test_compaction_output_that_waits_to_be_moved(tmp_path: Path) -> None:
    """As a crash leaves it between the renames: Kafka takes the .swap segment, and so do we."""
    segments(tmp_path)
    kept = [batch(1), batch(7), batch(19)]
    write_segment(tmp_path / "t-0", kept, base=0, suffix=".swap")
    write_segment(tmp_path / "t-0", [batch(0, 5)], base=0, suffix=".deleted")
    assert offsets(tmp_path) == [1, 7, *range(19, 30)][:3] + list(range(20, 30))


def test_unfinished_compaction_output_is_left_alone(tmp_path: Path) -> None:
    segments(tmp_path)
    write_segment(tmp_path / "t-0", [batch(3)], base=0, suffix=".cleaned")
    assert offsets(tmp_path) == list(range(30))


def test_the_log_start_of_the_checkpoint(tmp_path: Path) -> None:
    segments(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 13\n")
    assert offsets(tmp_path) == list(range(13, 30))
    assert offsets(tmp_path / "t-0") == list(range(13, 30))
    start = {"startingOffsets": '{"t":{"0":3}}'}
    with pytest.raises(DataLossError, match=r"Could not read 10 of the offsets \[3, 30\) of t-0: .*\[13, 30\)"):
        offsets(tmp_path, **start)
    assert offsets(tmp_path, failOnDataLoss=False, **start) == list(range(13, 30))
    (tmp_path / "log-start-offset-checkpoint").write_text("nonsense")
    assert offsets(tmp_path) == list(range(30))


def test_offsets_beyond_the_end(tmp_path: Path) -> None:
    segments(tmp_path)
    limits = {"startingOffsets": '{"t":{"0":28}}', "endingOffsets": '{"t":{"0":99}}'}
    with pytest.raises(DataLossError, match=r"Could not read 69 of the offsets \[28, 99\)"):
        offsets(tmp_path, **limits)
    assert offsets(tmp_path, failOnDataLoss=False, **limits) == [28, 29]


def test_a_segment_that_is_gone_or_compacted_after_planning(tmp_path: Path) -> None:
    paths = segments(tmp_path)
    reading = reader(tmp_path, chosen("offset"), maxBytesPerPartition=400)
    tasks = reading.partitions()
    # Compaction has put another file in the place of the second, and its records' positions are others.
    write_segment(tmp_path / "t-0", [batch(10), batch(13, 2), batch(19)])
    found = [n for task in tasks for each in reading.read(task) for n in each.column(0).to_pylist()]
    assert found == [*range(11), 13, 14, *range(19, 30)]
    paths[0].unlink()
    with pytest.raises(DataLossError, match="was removed or compacted after the query was planned"):
        list(reading.read(tasks[0]))
    lenient = reader(tmp_path, chosen("offset"), failOnDataLoss=False)
    assert list(lenient.read(tasks[0])) == []


def test_a_segment_that_goes_while_the_query_is_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retention does not wait for queries. It is lost then, as if it had gone a moment later."""
    paths = segments(tmp_path)
    load_index = replica_directory.load_index

    def then_it_goes(fs: FileSystem, segment: Segment) -> OffsetEntries:
        paths[0].unlink(missing_ok=True)
        return load_index(fs, segment)

    monkeypatch.setattr(replica_directory, "load_index", then_it_goes)
    reading = reader(tmp_path, chosen("offset"), maxBytesPerPartition=200, failOnDataLoss=False)
    found = [n for task in reading.partitions() for each in reading.read(task) for n in each.column(0).to_pylist()]
    assert found == list(range(10, 30))
    segments(tmp_path)
    strict = reader(tmp_path, chosen("offset"), maxBytesPerPartition=200)
    with pytest.raises(DataLossError, match="was removed or compacted after the query was planned"):
        list(strict.read(strict.partitions()[0]))


def test_the_last_segment_may_grow_and_shrink_after_planning(tmp_path: Path) -> None:
    path = segments(tmp_path)[-1]
    whole = path.read_bytes()
    reading = reader(tmp_path, chosen("offset"))
    (task,) = reading.partitions()
    path.write_bytes(whole + batch(30, 5))
    assert [n for each in reading.read(task) for n in each.column(0).to_pylist()] == list(range(30))
    path.write_bytes(whole[: positions(path)[3]])
    with pytest.raises(DataLossError, match=r"Could not read offsets \[26, 30\) of t-0: .* was truncated"):
        list(reading.read(task))


def test_a_batch_larger_than_a_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(piece_reader, "READ_BYTES", 300)
    write_segment(tmp_path / "t-0", [batch(0, 2), batch(2, 200), batch(202, 1)])
    assert offsets(tmp_path) == list(range(203))


# ---------------------------------------------------------------------------------------------- directories


def test_where_a_path_may_point(tmp_path: Path) -> None:
    for broker in ("a", "b"):
        write_segment(tmp_path / broker / "data" / f"{broker}-0", [batch(0, 2)])
    write_segment(tmp_path / "a/data" / "a-1.0123456789abcdef0123456789abcdef-delete", [batch(0, 2)])
    write_segment(tmp_path / "a/data" / "__consumer_offsets-3", [batch(0, 4)])

    def topics(path: Path | str, **options: object) -> list[tuple[str, int, int]]:
        schema = chosen("topic", "partition", "offset")
        return [tuple(row.values()) for row in rows(path, schema, **options)]

    a, b = [("a", 0, 0), ("a", 0, 1)], [("b", 0, 0), ("b", 0, 1)]
    assert topics(tmp_path) == a + b
    assert topics(tmp_path / "a/data") == a
    assert topics(f"{tmp_path}/a/data/a-0/") == a
    assert topics(f"file:{tmp_path}/a/data/a-0") == a
    assert topics(f"file://{tmp_path}/*/data/") == a + b
    assert topics(f"{tmp_path}/a , {tmp_path}/b/data/b-0") == a + b
    assert topics(f"{tmp_path}/[ab]/da?a/*-0") == a + b
    write_segment(tmp_path / "x[1]" / "t-0", [batch(0)])
    assert topics(tmp_path / "x[1]") == [("t", 0, 0)]
    shutil.rmtree(tmp_path / "x[1]")
    # The same directory by two ways is read once.
    assert topics(f"{tmp_path}/a,{tmp_path}/*") == a + b
    assert topics(tmp_path, subscribe="b") == b
    assert topics(tmp_path, subscribePattern="^[ax]") == a
    assert topics(tmp_path, assign='{"a":[0]}') == a
    assert len(topics(tmp_path, subscribe="__consumer_offsets")) == 4
    assert len(topics(tmp_path, assign='{"__consumer_offsets":[3]}')) == 4
    assert topics(tmp_path, subscribePattern="consumer") == []


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("{}/nowhere", {}, "path: .*/nowhere does not exist"),
        ("{}/empty", {}, "path: .*/empty holds no Kafka log"),
        ("{}/file", {}, "path: .*/file holds no Kafka log"),
        (" , ", {}, "path: no directory is named"),
        ("{}/log", {"subscribe": "t,u"}, "subscribe: no partition of u found below"),
        ("{}/log", {"assign": '{"t":[0,7]}'}, "assign: t-7 not found below"),
        ("{}/log", {"kafka.bootstrap.servers": "x:1"}, "path and kafka.bootstrap.servers are both set"),
        ("{}/log", {"maxBytesPerPartition": "many"}, "maxBytesPerPartition"),
        ("{}/log", {"startingOffsets": "latest"}, "can't be latest for batch queries"),
    ],
)
def test_bad_options_are_named(tmp_path: Path, path: str, options: dict[str, str], message: str) -> None:
    write_segment(tmp_path / "log" / "t-0", [batch(0)])
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(OptionsError, match=message):
        rows(path.format(tmp_path), **options)


def test_a_topic_named_like_a_directory_of_a_partition(tmp_path: Path) -> None:
    """`data-1` may be a broker's directory."""
    write_segment(tmp_path / "data-1" / "t-0", [batch(0, 3)])
    assert offsets(tmp_path / "data-1") == [0, 1, 2]


@pytest.mark.parametrize("beside", ["meta.properties", None])
def test_directories_of_brokers_named_like_those_of_partitions(tmp_path: Path, beside: str | None) -> None:
    """`/disks/kafka-1`, `/disks/kafka-2` …"""
    for number in range(2):
        write_segment(tmp_path / f"kafka-{number}" / f"t-{number}", [batch(0, 3)])
        if beside is not None:
            (tmp_path / f"kafka-{number}" / beside).touch()
    assert offsets(tmp_path) == [0, 1, 2] * 2
    assert offsets(f"{tmp_path}/kafka-*") == [0, 1, 2] * 2


def test_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies beside a directory is found, and executors find the files."""
    segments(tmp_path)
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 13\n")
    monkeypatch.chdir(tmp_path)
    for path in ("t-0", "./t-0/", ".", "t-*", "../" + tmp_path.name):
        assert offsets(path) == list(range(13, 30))
    (task,) = plan("t-0")
    assert all(Path(piece.segment.path).is_absolute() for piece in task.pieces)


def test_wildcards_and_odd_characters_in_urls(tmp_path: Path) -> None:
    for name in ("a", "b", "b#1", "b?2"):
        write_segment(tmp_path / name / "logs" / "t-0", [batch(0, 1 + len(name))])
    assert offsets(f"file://{tmp_path}/?/logs") == [0, 1]
    assert offsets(f"file:{tmp_path}/[a]/l?gs") == [0, 1]
    assert offsets(f"file://{tmp_path}/b#1/logs") == offsets(f"{tmp_path}/b#1") == [0, 1, 2, 3]
    assert offsets(f"file://{tmp_path}/b%3F2") == [0, 1, 2, 3]


def test_of_replicas_one_is_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_segment(tmp_path / "a" / "t-0", [batch(0, 9, leader_epoch=3)])
    write_segment(tmp_path / "b" / "t-0", [batch(0, 4, leader_epoch=3)])
    write_segment(tmp_path / "c" / "t-0", [batch(0, 4, leader_epoch=3), batch(4, 2, leader_epoch=4)])
    caplog.set_level(logging.WARNING)
    assert offsets(tmp_path) == list(range(6))
    assert "t-0 is in 3 directories" in caplog.text
    assert f"Only {tmp_path}/c/t-0 is read" in caplog.text
    # A leader of a later epoch that has appended nothing yet.
    (tmp_path / "b" / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n3 0\n5 4\n")
    assert offsets(tmp_path) == list(range(4))


@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=12),
    st.integers(1, 400),
    st.integers(0, 3),
    st.lists(st.integers(0, 47), min_size=1, max_size=4),
)
def test_times(counts: list[int], most_bytes: int, index_every: int, records: list[int]) -> None:
    """startingTimestamp finds the first record at or after it, with and without time indexes."""
    with temporary_directory() as root:
        bases = [0]
        for count in counts:
            bases.append(bases[-1] + count)
        batches = [batch(base, behind - base) for base, behind in pairwise(bases)]
        half = len(batches) // 2
        if half:
            write_segment(root / "t-0", batches[:half], index_every=index_every)
            last = bases[half] - 1
            entry = struct.pack(">qi", 1_700_000_000_000 + last, last)
            (root / "t-0" / f"{0:020d}.timeindex").write_bytes(entry)
        write_segment(root / "t-0", batches[half:], index_every=index_every)
        for wanted in {each % bases[-1] for each in records}:
            time = 1_700_000_000_000 + wanted
            assert offsets(root, startingTimestamp=time, maxBytesPerPartition=most_bytes) == list(
                range(wanted, bases[-1])
            )
            assert offsets(root, endingTimestamp=time) == list(range(wanted))
        with pytest.raises(OptionsError, match="No offset matched from request"):
            offsets(root, startingTimestamp=1_700_000_000_000 + bases[-1])
