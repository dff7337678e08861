"""Tests of what the tools find in sound and damaged logs, and of their repairs."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

from broker.log.append.validation import Origin
from broker.log.directories import checkpoints
from broker.log.directories.log_dir import LogDir
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.tools import repair, targets, verify
from broker.log.tools.checks import segment_check
from broker.log.tools.checks.findings import Level, Remedy
from broker.log.tools.repair_plan import Choice, plan_repair
from broker.log.tools.stats import Stats, segment_stats
from broker.log.tools.tail import Tail, follow, last_records
from kafkalog.records import checking
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError
from kafkalog.storage import names
from tests.broker.log.support import NOW, batch, marker, open_log, stored
from tests.support.checked_kernels import checked_kernels

CONFIG = LogConfig(index_interval_bytes=200, segment_index_bytes=2400)
SEGMENTS = 3
BATCHES = 12
"""Of a segment; each has five records."""


@pytest.fixture(params=["plain", "checked"], autouse=True)
def _mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if request.param == "checked":
        monkeypatch.setattr(verify, "SMALL_BYTES", 0)
        with checked_kernels():
            yield
    else:
        monkeypatch.setattr(checking, "_fast", None)
        yield


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A partition's directory in a log directory after a clean stop: codecs, epochs, producers, transactions."""
    top = tmp_path / "data"
    top.mkdir()
    partition = open_log(top, CONFIG)
    partition.assign_topic_id(UUID(int=7))
    sequence = 0
    for segment in range(SEGMENTS):
        if segment:
            partition.roll(NOW)
        for number in range(BATCHES):
            owned = number % 4 == 3
            data = batch(
                5, size=60, codec=list(Codec)[number % 5], key=b"k%d" % number, timestamp=NOW + 100 * segment + number,
                producer_id=5 if owned else -1, producer_epoch=0 if owned else -1,
                base_sequence=sequence if owned else -1,
            )  # fmt: skip
            sequence += 5 * owned
            partition.append_batch(data, leader_epoch=segment, now_ms=NOW)
        for at, commit in enumerate((False, True)):
            data = batch(
                2, producer_id=9, producer_epoch=0, base_sequence=segment * 4 + at * 2, is_transactional=True,
                timestamp=NOW + 100 * segment + 50,
            )  # fmt: skip
            partition.append_batch(data, leader_epoch=segment, now_ms=NOW, in_transaction=True)
            partition.append_batch(
                marker(9, commit=commit), leader_epoch=segment, now_ms=NOW, origin=Origin.COORDINATOR
            )
    end = partition.log_end_offset
    partition.close()
    directory = LogDir(top)
    directory.claim("cluster", 1)
    directory.write_recovery_points({("t", 0): end})
    directory.write_high_watermarks({("t", 0): end})
    directory.write_clean_shutdown()
    directory.unlock()
    assert len(list(partition.dir.glob("*.log"))) == SEGMENTS
    return partition.dir


def check(path: Path) -> verify.Report:
    return verify.verify(targets.find([str(path)]), threads=2)


def errors(path: Path) -> list[tuple[str, Remedy]]:
    """(file, remedy) of what is wrong."""
    found = [finding for finding in check(path).all_findings if finding.level is Level.ERROR]
    return [(os.path.basename(finding.file), finding.remedy) for finding in found]


def logs(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


def positions(path: Path) -> list[tuple[int, int, int]]:
    """(position, size, base offset) of the batches of a sound file."""
    scan = checking.scan(path.read_bytes(), 0, 0)
    return [(row[0], row[1], row[4]) for row in scan.table.tolist()]


def flip(path: Path, at: int, mask: int = 0x10) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= mask
    path.write_bytes(data)


def test_a_sound_log_has_nothing_wrong(log: Path) -> None:
    report = check(log.parent)
    assert list(report.all_findings) == []
    (partition,) = report.partitions.values()
    assert sum(segment.batches for segment in partition.segments) == SEGMENTS * (BATCHES + 4)
    assert partition.next_offset == SEGMENTS * (BATCHES * 5 + 6)
    for file in [*log.iterdir(), *log.parent.glob("*checkpoint")]:
        assert verify.check_file(str(file)) == []


def test_a_flipped_bit_is_found_where_it_is(log: Path) -> None:
    path = logs(log)[1]
    position, size, offset = positions(path)[4]
    flip(path, position + size - 3)
    (finding,) = [f for f in check(log).all_findings if f.level is Level.ERROR]
    assert (finding.file, finding.position, finding.offset) == (str(path), position, offset)
    assert finding.remedy is Remedy.CHOOSE
    assert "CRC" in finding.problem
    assert f"position {position}, offset {offset}" in str(finding)


@pytest.mark.parametrize("chunk", [200, 1000], ids=["a batch a chunk", "batches a chunk"])
def test_batches_behind_damage_are_sound_wherever_a_chunk_ends(
    log: Path, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_check, "CHUNK_BYTES", chunk)
    path = logs(log)[-1]
    batches = positions(path)
    sound = path.read_bytes()
    for position, size, offset in batches[:-1]:
        flip(path, position + size - 3)
        (segment,) = (s for p in check(log).partitions.values() for s in p.segments if s.damages)
        assert [(d.position, d.end, d.offset, d.sound_after) for d in segment.damages] == [
            (position, position + size, offset, True)
        ]
        assert segment.valid_end == len(sound)
        path.write_bytes(sound)
    position, size, offset = batches[-1]
    flip(path, position + size - 3)
    assert errors(log)[0] == (path.name, Remedy.CUT_TAIL)
    (partition,) = check(log).partitions.values()
    assert (partition.segments[-1].valid_end, partition.next_offset) == (position, offset)


@pytest.mark.parametrize("chunk", [200, 1 << 20], ids=["a batch a chunk", "all in a chunk"])
@pytest.mark.parametrize("field", [1, 23], ids=["base offset", "last offset delta"])
def test_offsets_that_damage_claims_do_not_count(
    log: Path, field: int, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_check, "CHUNK_BYTES", chunk)
    path = logs(log)[-1]
    position, size, offset = positions(path)[5]
    before = values(log)
    flip(path, position + field, 0x40)
    (partition,) = check(log).partitions.values()
    (damage,) = partition.segments[-1].damages
    assert (damage.position, damage.end, damage.offset, damage.sound_after) == (position, position + size, offset, True)
    assert partition.next_offset == SEGMENTS * (BATCHES * 5 + 6)
    mend(log, Choice.SKIP)
    assert values(log) == before


@pytest.mark.parametrize("field", [8, 16], ids=["length", "magic"])
def test_what_follows_a_header_that_cannot_be_is_found_by_the_index(log: Path, field: int) -> None:
    path = logs(log)[0]
    position, _, offset = positions(path)[5]
    flip(path, position + field, 0x40)
    report = check(log)
    (partition,) = report.partitions.values()
    (damage,) = partition.segments[0].damages
    assert (damage.position, damage.offset, damage.sound_after) == (position, offset, True)
    assert partition.segments[0].next_offset == partition.segments[1].base
    assert errors(log) == [(path.name, Remedy.CHOOSE)]


@pytest.mark.parametrize("cut", [1, 40, 70])
def test_a_torn_tail(log: Path, cut: int) -> None:
    path = logs(log)[-1]
    size = path.stat().st_size
    last_position = positions(path)[-1][0]
    os.truncate(path, max(size - cut, last_position + 3))
    found = errors(log)
    assert (path.name, Remedy.CUT_TAIL) in found


def test_zeros_behind_the_last_batch_are_a_file_made_at_its_full_size(log: Path) -> None:
    path = logs(log)[-1]
    os.truncate(path, path.stat().st_size + 5000)
    assert errors(log) == []
    assert any("zero" in finding.problem for finding in check(log).all_findings)
    path = logs(log)[0]
    os.truncate(path, path.stat().st_size + 5000)
    assert errors(log) == [(path.name, Remedy.CHOOSE)]


def damaged_index(log: Path, suffix: str, at: int) -> Path:
    path = logs(log)[0].with_suffix(suffix)
    flip(path, at, 1)
    return path


@pytest.mark.parametrize(
    ("suffix", "at", "remedy"),
    [
        (".index", 3, Remedy.REBUILD_INDEX),
        (".index", 7, Remedy.REBUILD_INDEX),
        (".timeindex", 7, Remedy.REBUILD_INDEX),
        (".timeindex", 0, Remedy.REBUILD_INDEX),
        (".txnindex", 17, Remedy.REBUILD_INDEX),
        (".txnindex", 25, Remedy.REBUILD_INDEX),
        (".txnindex", 1, Remedy.REBUILD_INDEX),
    ],
)
def test_an_index_that_is_not_the_logs_is_found_and_built_anew(log: Path, suffix: str, at: int, remedy: Remedy) -> None:
    before = {path.name: path.read_bytes() for path in log.iterdir()}
    path = damaged_index(log, suffix, at)
    damaged = path.read_bytes()
    assert {(path.name, remedy)} == set(errors(log.parent))
    backup = mend(log)
    # Offset and time index are as dense as a default configuration makes them, so not as they were.
    same = [name for name in before if suffix == ".txnindex" or Path(name).suffix not in (".index", ".timeindex")]
    assert {name for name in same if (log / name).read_bytes() != before[name]} == set()
    assert (backup / path.name).read_bytes() == damaged != before[path.name]


def test_a_missing_or_a_cut_index(log: Path) -> None:
    index = logs(log)[0].with_suffix(".index")
    index.write_bytes(index.read_bytes()[:-3])
    assert (index.name, Remedy.REBUILD_INDEX) in errors(log)
    index.unlink()
    assert errors(log) == []
    assert any("missing" in finding.problem for finding in check(log).all_findings)


def test_a_snapshot_that_is_not_the_logs(log: Path) -> None:
    base = int(logs(log)[1].stem)
    path = log / names.segment_name(base, names.SNAPSHOT)
    sound = path.read_bytes()
    flip(path, 20)
    assert errors(log) == [(path.name, Remedy.REMOVE_SNAPSHOT)]
    # One that reads well, of another offset.
    other = log / names.segment_name(int(logs(log)[2].stem), names.SNAPSHOT)
    shutil.copy(other, path)
    assert errors(log) == [(path.name, Remedy.REMOVE_SNAPSHOT)]
    backup = mend(log)
    assert not path.exists()
    assert (backup / path.name).read_bytes() == other.read_bytes() != sound


def test_leader_epochs_that_are_not_the_logs(log: Path) -> None:
    path = log / names.LEADER_EPOCH_CHECKPOINT
    sound = path.read_text()
    for text in ("0\n1\n5 0\n", "0\n2\n0 0\n", "0\n2\n3 70\n1 20\n"):
        path.write_text(text)
        assert errors(log) == [(path.name, Remedy.REBUILD_EPOCHS)]
    mend(log)
    assert path.read_text() == sound


def test_checkpoints_that_say_what_cannot_be(log: Path) -> None:
    top = log.parent
    end = check(log).partitions[str(log)].next_offset
    checkpoints.write_offsets(str(top / names.HIGH_WATERMARK_CHECKPOINT), {("t", 0): end + 1, ("gone", 3): 7})
    (top / names.RECOVERY_POINT_CHECKPOINT).write_text("0\n3\n")
    assert errors(top) == [
        (names.RECOVERY_POINT_CHECKPOINT, Remedy.REWRITE_CHECKPOINT),
        (names.HIGH_WATERMARK_CHECKPOINT, Remedy.REWRITE_CHECKPOINT),
    ]
    mend(log, expect_backup=False)
    found = checkpoints.read_offsets(str(top / names.HIGH_WATERMARK_CHECKPOINT))
    assert found == {("t", 0): end, ("gone", 3): 7}
    assert len(list(top.glob("*.repair-*"))) == 2
    (top / names.META_PROPERTIES).write_text("version=0\n")
    assert errors(top) == [(names.META_PROPERTIES, Remedy.RESTORE)]


def test_offsets_that_are_missing_are_damage_unless_a_compaction_is_known(log: Path) -> None:
    middle = logs(log)[1]
    for path in log.glob(f"{middle.stem}.*"):
        path.unlink()
    assert (logs(log)[1].name, Remedy.RESTORE) in errors(log)
    checkpoints.write_offsets(str(log.parent / names.CLEANER_CHECKPOINT), {("t", 0): 10})
    assert Remedy.RESTORE not in [remedy for _, remedy in errors(log)]
    assert any("as compaction leaves it" in finding.problem for finding in check(log).all_findings)


def test_one_broker_writes_what_is_checked(log: Path) -> None:
    """Its lock is seen, and what is at the end is not called damage."""
    path = logs(log)[-1]
    os.truncate(path, path.stat().st_size - 9)
    directory = LogDir(log.parent)
    try:
        assert errors(log.parent) == []
        with pytest.raises(repair.InUseError, match="in use by a running broker"), repair.locked([str(log.parent)]):
            pass
    finally:
        directory.unlock()
    assert errors(log.parent) != []


def test_the_lock_keeps_brokers_away(log: Path) -> None:
    with repair.locked([str(log.parent)]), (log.parent / names.LOCK).open() as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# -- repair --------------------------------------------------------------------------------------------------


def mend(log: Path, choice: Choice = Choice.ASK, *, expect_backup: bool = True) -> Path:
    """Repair; nothing may be wrong afterwards. The backup's directory."""
    report = check(log.parent)
    plans = [plan_repair(partition, choice) for partition in report.partitions.values()]
    said: list[str] = []
    repairer = repair.Repairer("20200101T000000Z", said.append)
    for plan in plans:
        assert plan.left == []
        repairer.carry_out(plan)
    repairer.apply_directory(
        str(log.parent), plans, {plan.partition.key: plan.end for plan in plans if plan.partition.key}
    )
    assert said
    assert errors(log.parent) == []
    backup = log / ".repair-20200101T000000Z"
    assert backup.is_dir() == expect_backup
    return backup


def values(log: Path, *, recovery_point: int = 0) -> list[tuple[int, int]]:
    """Offsets of the batches that a broker serves once it has recovered the log."""
    copy = log.parent.parent / "served" / log.name
    shutil.rmtree(copy.parent, ignore_errors=True)
    shutil.copytree(log, copy)
    opened = Log.open(copy, CONFIG, clean=False, log_start_offset=0, recovery_point=recovery_point, now_ms=NOW)
    found = [(row.base_offset, row.last_offset) for row in stored(opened)]
    opened.close()
    return found


def test_a_torn_tail_is_cut(log: Path) -> None:
    before = values(log)
    path = logs(log)[-1]
    position = positions(path)[-1][0]
    torn = path.read_bytes()[position:-5]
    os.truncate(path, path.stat().st_size - 5)
    backup = mend(log)
    assert (backup / f"{path.name}.from-{position}").read_bytes() == torn
    assert path.stat().st_size == position
    assert values(log) == before[:-1]
    assert not (log.parent / names.CLEAN_SHUTDOWN).exists()
    assert checkpoints.read_offsets(str(log.parent / names.RECOVERY_POINT_CHECKPOINT)) == {("t", 0): int(path.stem)}


def test_what_to_lose_must_be_said(log: Path) -> None:
    flip(logs(log)[1], positions(logs(log)[1])[3][0] + 70)
    (partition,) = check(log).partitions.values()
    plan = plan_repair(partition, Choice.ASK)
    assert plan.actions == []
    assert [finding.remedy for finding in plan.left] == [Remedy.CHOOSE]


@pytest.mark.parametrize("damage", ["one", "two", "adjacent", "first", "last", "length"])
def test_damaged_batches_are_skipped(log: Path, damage: str) -> None:
    """The offsets of what is lost go on being there: a broker's recovery keeps everything else."""
    before = values(log)
    path = logs(log)[1]
    rows = positions(path)
    hit = {"one": [4], "two": [4, 8], "adjacent": [4, 5], "first": [0], "last": [len(rows) - 1], "length": [4]}[damage]
    data = bytearray(path.read_bytes())
    for number in hit:
        data[rows[number][0] + (8 if damage == "length" else 65)] ^= 0x40
    path.write_bytes(data)
    lost = {rows[number][2] for number in hit}
    backup = mend(log, Choice.SKIP)
    after = values(log)
    # Found by the index, what follows a batch of unknown length begins at the index's next entry.
    kept = [row for row in before if row[0] not in lost]
    assert set(kept) <= set(after) if damage != "length" else set(after) & set(before) >= set(before[:16])
    assert [first for first, _ in after] == [0, *(last + 1 for _, last in after[:-1])]
    assert after[-1] == before[-1]
    assert list(backup.glob(f"{path.name}.from-*"))


def test_everything_from_the_damage_on_is_cut(log: Path) -> None:
    before = values(log)
    path = logs(log)[1]
    rows = positions(path)
    flip(path, rows[4][0] + 65)
    third = logs(log)[2].name
    backup = mend(log, Choice.TRUNCATE)
    assert values(log) == [row for row in before if row[0] < rows[4][2]]
    assert (backup / third).exists()
    assert not (log / third).exists()
    watermarks = checkpoints.read_offsets(str(log.parent / names.HIGH_WATERMARK_CHECKPOINT))
    assert watermarks == {("t", 0): rows[4][2]}
    epochs = checkpoints.read_epochs(str(log / names.LEADER_EPOCH_CHECKPOINT))
    assert [epoch for epoch, _ in epochs] == [0, 1]


def test_a_plan_changes_nothing(log: Path) -> None:
    flip(logs(log)[0], 70)
    before = {path: path.read_bytes() for path in log.parent.rglob("*") if path.is_file()}
    (partition,) = check(log.parent).partitions.values()
    for choice in Choice:
        plan_repair(partition, choice)
    assert {path: path.read_bytes() for path in log.parent.rglob("*") if path.is_file()} == before


# -- tail ----------------------------------------------------------------------------------------------------


def test_the_last_records(log: Path) -> None:
    tail = Tail(str(log))
    try:
        tail.start_last(7)
        records = [record for _, record in last_records(tail.read(), 7)]
    finally:
        tail.close()
    # Before the marker at the end: two of a transaction, a marker, two, and then batches of five.
    end = SEGMENTS * (BATCHES * 5 + 6)
    assert [record.offset for record in records] == [end - 9, end - 8, end - 7, end - 6, end - 5, end - 3, end - 2]


def test_more_than_there_is(log: Path) -> None:
    tail = Tail(str(log))
    tail.start_last(10_000)
    assert len(last_records(tail.read(), 10_000)) == SEGMENTS * (BATCHES * 5 + 4)
    tail.close()


def test_what_comes_is_followed_over_rolls_and_torn_writes(tmp_path: Path) -> None:
    writer = open_log(tmp_path, CONFIG)
    writer.append_batch(batch([b"old"]), leader_epoch=0, now_ms=NOW)
    tail = Tail(str(writer.dir))
    tail.start_last(0)
    assert list(tail.read()) == []
    writer.append_batch(batch([b"a"]), leader_epoch=0, now_ms=NOW)
    writer.roll(NOW)
    writer.append_batch(batch([b"b"], codec=Codec.LZ4), leader_epoch=0, now_ms=NOW)

    def come() -> list[bytes | None]:
        return [record.value for found in tail.read() for record in found.records]

    assert come() == [b"a", b"b"]
    # A write that is half done.
    data = encode_batch([Record(3, NOW, None, b"c" * 100)], base_offset=3)
    path = logs(writer.dir)[-1]
    for end in (5, 20, 61, len(data) - 1):
        with path.open("r+b") as file:
            file.seek(writer.active_segment.size)
            file.write(data[:end])
        assert come() == []
    with path.open("r+b") as file:
        file.seek(writer.active_segment.size)
        file.write(data)
    assert come() == [b"c" * 100]
    tail.close()
    writer.close()


def test_damage_ends_a_tail(log: Path) -> None:
    path = logs(log)[0]
    rows = positions(path)
    flip(path, rows[3][0] + 65)
    tail = Tail(str(path))
    tail.start_last(10_000)
    with pytest.raises(RecordsError, match=f"position {rows[3][0]}"):
        # It might be being written: only patience tells.
        list(follow(tail, lambda: None))
    tail.close()


# -- stats ---------------------------------------------------------------------------------------------------


def total(log: Path, *, deep: bool = False, count_keys: bool = False) -> Stats:
    partition = targets.partition_at(str(log))
    stats = Stats()
    for base in partition.bases:
        stats.add(segment_stats(partition, base, deep=deep, count_keys=count_keys))
    return stats


def test_numbers(log: Path) -> None:
    stats = total(log)
    row = stats.row(deep=False)
    assert row["segments"] == SEGMENTS
    assert row["batches"] == SEGMENTS * (BATCHES + 4)
    assert row["records"] == SEGMENTS * (BATCHES * 5 + 4)
    assert row["bytes"] == sum(path.stat().st_size for path in logs(log))
    assert row["control_batches"] == row["transactional_batches"] == SEGMENTS * 2
    assert row["producers"] == 2
    assert (row["first_offset"], row["next_offset"]) == (0, SEGMENTS * (BATCHES * 5 + 6))
    assert row["codecs"]["gzip"] == SEGMENTS * 3
    assert row["min_timestamp"] == NOW
    assert row["max_timestamp"] == NOW + 100 * (SEGMENTS - 1) + 50
    assert 0.9 < row["density"] < 1


def test_numbers_of_every_record(log: Path) -> None:
    stats = total(log, deep=True, count_keys=True)
    row = stats.row(deep=True, top_keys=2)
    assert row["records"] == SEGMENTS * (BATCHES * 5 + 4)
    assert row["values"]["bytes"] == SEGMENTS * (BATCHES * 5 * 60 + 4 * 20)
    assert row["keys"]["null"] == SEGMENTS * 4
    assert row["compression_ratio"] > 1
    assert [each["records"] for each in row["top_keys"]] == [5 * SEGMENTS] * 2
    assert row["top_keys"][0]["key"].startswith("k")


def test_what_cannot_be_read_is_told(log: Path) -> None:
    os.truncate(logs(log)[-1], logs(log)[-1].stat().st_size - 1)
    assert "cut off" in total(log).row(deep=False)["unreadable"][0]


# -- targets -------------------------------------------------------------------------------------------------


def test_what_a_path_means(log: Path, tmp_path: Path) -> None:
    (log / ".repair-20200101T000000Z").mkdir()
    shutil.copy(logs(log)[0], log / ".repair-20200101T000000Z")
    cases: list[tuple[Path, int, int, int]] = [
        (log, 1, 0, 0), (log.parent, 1, 1, 0), (tmp_path, 1, 1, 0), (logs(log)[0], 0, 0, 1)
    ]  # fmt: skip
    for path, partitions, tops, files in cases:
        found = targets.find([str(path)])
        assert (len(found.partitions), len(found.log_dirs), len(found.files)) == (partitions, tops, files)
    (tmp_path / "empty").mkdir()
    for path, text in ((tmp_path / "empty", "neither a partition"), (tmp_path / "nothing", "No such file")):
        with pytest.raises(targets.NotALogError, match=text):
            targets.find([str(path)])
