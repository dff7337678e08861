"""Tests of repairs of damaged logs, and of the log that a broker serves afterwards."""

from __future__ import annotations

import argparse
import os
import struct
from pathlib import Path

import pytest

from broker.cli.log.repair import add_parser
from broker.log.directories import checkpoints
from broker.log.tools.checks.findings import Remedy
from broker.log.tools.repair_plan import Choice, plan_repair
from kafkalog.records.batch import HEADER_SIZE, Record, encode_batch
from kafkalog.records.checksum import crc32c
from kafkalog.storage import names
from kafkalog.storage.index_entries import MAX_RELATIVE_OFFSET
from tests.broker.log.support import NOW, batch, open_log
from tests.broker.log.tools.damaged import CONFIG, check, errors, flip, logs, positions
from tests.broker.log.tools.mending import mend, values

pytestmark = pytest.mark.usefixtures("each_check")

NOBODY = 65534


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


@pytest.mark.parametrize("kind", [names.INDEX, names.TXN_INDEX])
def test_indexes_beside_a_file_that_was_made_at_its_full_size(log: Path, kind: str) -> None:
    before = values(log)
    path = logs(log)[-1]
    os.truncate(path, path.stat().st_size + 5000)
    flip(path.with_suffix(kind), 1)
    assert set(errors(log)) == {(path.with_suffix(kind).name, Remedy.REBUILD_INDEX)}
    mend(log)
    assert values(log) == before


def test_a_plan_changes_nothing(log: Path) -> None:
    flip(logs(log)[0], 70)
    before = {path: path.read_bytes() for path in log.parent.rglob("*") if path.is_file()}
    (partition,) = check(log.parent).partitions.values()
    for choice in Choice:
        plan_repair(partition, choice)
    assert {path: path.read_bytes() for path in log.parent.rglob("*") if path.is_file()} == before


def spoil_marker(path: Path, at: int) -> None:
    """Give the control record at this position a negative version, and the batch a checksum that fits."""
    data = bytearray(path.read_bytes())
    (size,) = struct.unpack_from(">i", data, at + 8)
    end = at + 12 + size
    key = next(
        found for kind in (0, 1) if (found := data.find(struct.pack(">bhh", 8, 0, kind), at + HEADER_SIZE, end)) > 0
    )
    struct.pack_into(">h", data, key + 1, -1)
    struct.pack_into(">I", data, at + 17, crc32c(bytes(data[at + 21 : end])))
    path.write_bytes(data)


@pytest.mark.parametrize("choice", [Choice.SKIP, Choice.TRUNCATE])
def test_a_marker_that_does_not_read_is_damage(log: Path, choice: Choice) -> None:
    """As it is for recovery, here and in Apache Kafka (LogSegment.recover)."""
    before = values(log)
    path = logs(log)[1]
    # The last batches of a segment are a transaction, its abort, another transaction and its commit.
    *_, (at, _, offset), _, _ = positions(path)
    spoil_marker(path, at)
    (log / f"{path.stem}.txnindex").unlink()
    assert [finding.problem for finding in check(log).all_findings if finding.offset == offset] == [
        "control record of version -1 (78 bytes)"
    ]
    mend(log, choice)
    kept = [row for row in before if choice is Choice.SKIP or row[0] < offset]
    assert [row for row in values(log) if row[0] != offset] == [row for row in kept if row[0] != offset]


def test_a_last_marker_that_does_not_read_is_cut(log: Path) -> None:
    before = values(log)
    path = logs(log)[-1]
    position = positions(path)[-1][0]
    spoil_marker(path, position)
    mend(log)
    assert path.stat().st_size == position
    assert values(log) == before[:-1]


def test_batches_in_place_of_damage_stay_within_reach_of_the_index(tmp_path: Path) -> None:
    """Offsets that compaction has removed lie between the damage and the next segment."""
    log = open_log(tmp_path, CONFIG)
    for _ in range(2):
        log.append_batch(batch(5), leader_epoch=0, now_ms=NOW)
    log.close()
    (tmp_path / names.CLEANER_CHECKPOINT).write_bytes(b"0\n1\nt 0 5\n")
    first = logs(log.dir)[0]
    far = 2**33
    (log.dir / names.segment_name(far, names.LOG)).write_bytes(encode_batch([Record(far, NOW)], base_offset=far))
    flip(first, positions(first)[1][0] + 65)
    mend(log.dir, Choice.SKIP)
    assert max(row[2] for row in positions(first)) <= MAX_RELATIVE_OFFSET


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to somebody else")
def test_what_root_repairs_belongs_to_the_broker(log: Path) -> None:
    for path in [log.parent, *log.parent.rglob("*")]:
        os.chown(path, NOBODY, NOBODY)
    first = logs(log)[0]
    flip(first, positions(first)[2][0] + 65)
    (log.parent / names.HIGH_WATERMARK_CHECKPOINT).write_bytes(b"0\n1\nt 0 999999\n")
    os.chown(log.parent / names.META_PROPERTIES, 0, 0)
    mend(log, Choice.SKIP)
    theirs = {path.name for path in log.parent.rglob("*") if path.stat().st_uid != NOBODY}
    # What was there before is left alone.
    assert theirs == {names.META_PROPERTIES}


def repaired(*words: str) -> int:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    arguments = parser.parse_args(["repair", *words])
    return int(arguments.run(arguments))


@pytest.mark.parametrize("paths", [["data"], ["link", "data"], ["link/t-0", "data"]])
def test_other_names_of_a_log_directory(log: Path, monkeypatch: pytest.MonkeyPatch, paths: list[str]) -> None:
    """Our own lock must not pass for that of a broker."""
    (log.parent.parent / "link").symlink_to(log.parent)
    os.truncate(logs(log)[-1], logs(log)[-1].stat().st_size - 5)
    monkeypatch.chdir(log.parent.parent)
    assert repaired(*paths) == 0
    assert errors(log.parent) == []


def test_a_partition_that_is_named_twice_is_repaired_once(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The second repair would take out sound batches at the positions of the damaged ones."""
    before = values(log)
    path = logs(log)[1]
    _, (at, _, offset), *_ = positions(path)
    flip(path, at + 65)
    assert repaired("--skip", str(log), f"{log}/", str(log.parent)) == 0
    assert capsys.readouterr().out.count("take ") == 1
    assert set(values(log)) >= {row for row in before if row[0] != offset}


def test_a_cut_log_ends_after_its_last_sound_batch(log: Path) -> None:
    """No checksum covers the offset that a damaged batch states, so it is not where the log ends."""
    path = logs(log)[1]
    at, _, expected = positions(path)[4]
    flip(path, at + 65)
    flip(path, at + 7, 8)
    assert repaired("--truncate", str(log.parent)) == 0
    assert checkpoints.read_offsets(str(log.parent / names.HIGH_WATERMARK_CHECKPOINT)) == {("t", 0): expected}


def test_all_damage_at_the_end_of_a_log_is_cut(log: Path) -> None:
    before = values(log)
    path = logs(log)[-1]
    rows = positions(path)
    for at, _, _ in rows[-3:]:
        flip(path, at + 65)
    mend(log)
    assert path.stat().st_size == rows[-3][0]
    assert values(log) == before[:-3]


def test_the_index_of_a_log_whose_damage_stays_is_left_alone(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It cannot be built behind the damage, and the error ended the repair of all other partitions, too."""
    path = logs(log)[1]
    # An unknown magic.
    flip(path, positions(path)[3][0] + 16, 1)
    index = path.with_suffix(names.INDEX)
    flip(index, 3)
    before = index.read_bytes()
    os.truncate(logs(log)[-1].with_suffix(names.INDEX), 12)
    assert repaired(str(log.parent)) == 1
    assert {remedy for name, remedy in errors(log.parent) if name != index.name} == {Remedy.CHOOSE}
    assert index.read_bytes() == before
    assert "anew" in capsys.readouterr().out
    assert repaired("--skip", str(log.parent)) == 0
