"""Tests of what `verify` finds in sound and damaged logs, and of what a path means to the tools."""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path

import pytest

from broker.log.directories import checkpoints
from broker.log.directories.log_dir import LogDir
from broker.log.tools import repair, targets, verify
from broker.log.tools.checks import segment_check
from broker.log.tools.checks.findings import Level, Remedy
from broker.log.tools.repair_plan import Choice, plan_repair
from kafkalog.records.batch import LOG_OVERHEAD
from kafkalog.storage import names
from kafkalog.storage.index_entries import OFFSET_ENTRY
from tests.broker.log.tools.damaged import BATCHES, SEGMENTS, check, errors, flip, logs, positions
from tests.broker.log.tools.mending import mend, values

pytestmark = pytest.mark.usefixtures("each_check")


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


@pytest.mark.parametrize("byte", [1, 5])
@pytest.mark.parametrize("segment", range(SEGMENTS))
def test_a_last_batch_cannot_lie_past_the_end_of_its_segment(log: Path, segment: int, byte: int) -> None:
    path = logs(log)[segment]
    position, size, offset = positions(path)[-1]
    is_last = segment == SEGMENTS - 1
    # No checksum covers the base offset.
    flip(path, position + (1 if is_last else byte), 0x40)
    (partition,) = check(log).partitions.values()
    (damage,) = partition.segments[segment].damages
    assert (damage.position, damage.end, damage.offset, damage.sound_after) == (
        position,
        position + size,
        offset,
        False,
    )
    assert errors(log) == [(path.name, Remedy.CUT_TAIL if is_last else Remedy.CHOOSE)]
    mend(log, Choice.SKIP)
    if not is_last:
        assert values(log)[-1][1] == SEGMENTS * (BATCHES * 5 + 6) - 1


def test_two_batches_past_the_end_of_their_segment_had_offsets_of_it(log: Path) -> None:
    path = logs(log)[0]
    (position, _, offset), (last, _, _) = positions(path)[-2:]
    flip(path, position + 5, 0x40)
    flip(path, last + 5, 0x60)
    (partition,) = check(log).partitions.values()
    damages = partition.segments[0].damages
    assert [(damage.position, damage.offset) for damage in damages] == [(position, offset), (last, offset)]


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


def test_an_index_of_a_follower_of_apache_kafka(log: Path) -> None:
    """It appends all batches of a fetch at once: the first one's position stands beside the last one's offset."""
    path = logs(log)[0]
    batches = positions(path)
    following = [offset for _, _, offset in batches[1:]]
    entries = [(following[i + 2] - 1, batches[i][0]) for i in range(3, len(following) - 2, 3)]
    index = path.with_suffix(".index")
    index.write_bytes(b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries))
    assert len(entries) > 2
    assert list(check(log).all_findings) == []
    # A batch does end with this offset, but it begins where the next entry points.
    entries[0] = (following[6] - 1, entries[0][1])
    assert entries[1][1] == batches[6][0]
    index.write_bytes(b"".join(OFFSET_ENTRY.pack(*entry) for entry in entries))
    assert errors(log) == [(index.name, Remedy.REBUILD_INDEX)]


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


def test_a_batch_with_a_wrong_leader_epoch_makes_no_epoch(log: Path) -> None:
    epochs = log / names.LEADER_EPOCH_CHECKPOINT
    sound = epochs.read_text()
    path = logs(log)[1]
    # No checksum covers the epoch.
    flip(path, positions(path)[4][0] + LOG_OVERHEAD, 0x40)
    assert errors(log) == [(path.name, Remedy.RESTORE)]
    epochs.write_text("0\n1\n5 0\n")
    (partition,) = check(log).partitions.values()
    repair.Repairer("20200101T000000Z", lambda text: None).carry_out(plan_repair(partition))
    assert epochs.read_text() == sound
    assert errors(log) == [(path.name, Remedy.RESTORE)]


@pytest.mark.parametrize(("segment", "mask"), [(2, 3), (1, 1)], ids=["in the last batch", "before the epoch changes"])
def test_one_batch_with_a_lower_leader_epoch_takes_none_from_the_log(log: Path, segment: int, mask: int) -> None:
    epochs = log / names.LEADER_EPOCH_CHECKPOINT
    sound = epochs.read_text()
    path = logs(log)[segment]
    position, _, offset = positions(path)[-1]
    flip(path, position + LOG_OVERHEAD + 3, mask)
    (finding,) = check(log).all_findings
    assert (finding.file, finding.offset, finding.remedy) == (str(path), offset, Remedy.RESTORE)
    epochs.write_text("0\n1\n5 0\n")
    (partition,) = check(log).partitions.values()
    repair.Repairer("20200101T000000Z", lambda text: None).carry_out(plan_repair(partition))
    assert epochs.read_text() == sound


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
