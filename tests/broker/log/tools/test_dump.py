"""Test that `dump_file` prints what Apache Kafka's DumpLogSegments prints for the same files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from broker.log.log_config import LogConfig
from broker.log.tools import dump
from broker.log.tools.dump import dump_file
from kafkalog.storage.index_entries import OFFSET_ENTRY, TIME_ENTRY
from peers import require
from peers.brokers import kafka
from tests.broker.log.support import NOW, batch, open_log
from tests.broker.log.tools.sample import sample

TOOL = {kafka.KAFKA_3: "kafka.tools.DumpLogSegments", kafka.KAFKA_4: "org.apache.kafka.tools.DumpLogSegments"}


def files(directory: Path) -> list[Path]:
    found = sorted(path for path in directory.iterdir() if re.fullmatch(r"\d{20}\.\w+", path.name))
    assert {path.suffix for path in found} == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    return found


OPTIONS: dict[str, dict[str, Any]] = {
    "": {},
    "--deep-iteration": {"deep_iteration": True},
    "--print-data-log": {"print_data_log": True},
    "--print-data-log --skip-record-metadata": {"print_data_log": True, "skip_record_metadata": True},
    "--index-sanity-check": {"index_sanity_check": True},
    "--verify-index-only": {"verify_index_only": True},
}


@pytest.mark.peer
@pytest.mark.timeout(600)
@pytest.mark.parametrize("version", kafka.VERSIONS)
@pytest.mark.parametrize("options", OPTIONS)
def test_the_text_is_kafkas(tmp_path: Path, options: str, version: str) -> None:
    require(kafka.missing(version))
    log = sample(tmp_path)
    paths = files(log.dir)
    args = ["--files", ",".join(map(str, paths)), *options.split()]
    theirs = kafka.run_java_tool(TOOL[version], args, version)
    if version == kafka.KAFKA_3 and options.endswith("metadata"):
        # Before 4.0 the bar was left out where a record has no key.
        theirs = re.sub(r"^ payload:", "| payload:", theirs, flags=re.MULTILINE)
    ours = "\n".join(line for path in paths for line in dump_file(path, **OPTIONS[options]))
    assert ours.splitlines() == theirs.splitlines()


def damage(directory: Path, what: str) -> list[Path]:
    """Damage a file of the sample; the files to dump."""
    log, index, times = (directory / f"{0:020d}{kind}" for kind in (".log", ".index", ".timeindex"))
    data = bytearray(log.read_bytes())
    if what == "checksum":
        data[18] ^= 1
        log.write_bytes(data)
        return [log]
    if what == "tail":
        log.write_bytes(data[:-7])
        return [log]
    if what == "index":
        entries = bytearray(index.read_bytes())
        entries[3] += 1
        index.write_bytes(entries)
        return [index]
    entries = bytearray(times.read_bytes())
    entries[7] += 1
    times.write_bytes(entries)
    return [times]


@pytest.mark.peer
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["checksum", "tail", "index", "time index"])
def test_damage_is_told_in_kafkas_words(tmp_path: Path, what: str) -> None:
    require(kafka.missing())
    paths = damage(sample(tmp_path).dir, what)
    theirs = kafka.run_java_tool(TOOL[kafka.KAFKA_4], ["--files", ",".join(map(str, paths))])
    problems: list[str] = []
    ours = [line for path in paths for line in dump_file(path, problems=problems)]
    assert ours == [line for line in theirs.splitlines() if line not in problems]
    assert bool(problems) == (what in ("index", "time index"))


def test_what_cannot_be_known_is_said(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    assert list(dump_file(tmp_path / "notes.txt"))[1:] == [f"Ignoring unknown file {tmp_path / 'notes.txt'}"]
    log = sample(tmp_path)
    (log.dir / "00000000000000000000.index").write_bytes(b"\xff" * 12)
    problems: list[str] = []
    list(dump_file(log.dir / "00000000000000000000.index", index_sanity_check=True, problems=problems))
    assert len(problems) == 1


def test_the_entries_of_the_offset_index_are_searched_and_not_walked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A walk for each row of a time index would take minutes for a large one."""
    walks: list[int] = []
    entries_of = dump.offset_index_entries

    class Entries(list[tuple[int, int]]):
        def __iter__(self) -> Iterator[tuple[int, int]]:
            walks.append(len(self))
            return super().__iter__()

    monkeypatch.setattr(dump, "offset_index_entries", lambda file: Entries(entries_of(file)))
    log = open_log(tmp_path, LogConfig(index_interval_bytes=1))
    for number in range(50):
        log.append_batch(batch(1, timestamp=NOW + number), leader_epoch=0, now_ms=NOW)
    log.close()
    problems: list[str] = []
    printed = list(dump_file(log.dir / "00000000000000000000.timeindex", problems=problems))
    assert problems == []
    assert printed[1:] == [f"timestamp: {NOW + number} offset: {number}" for number in range(1, 50)]
    assert walks == [49]


def test_entries_with_impossible_positions_are_mismatches(tmp_path: Path) -> None:
    directory = sample(tmp_path).dir
    index, times = (directory / f"{0:020d}{kind}" for kind in (".index", ".timeindex"))
    offsets = [offset for offset, _ in dump.offset_index_entries(str(index))]
    index.write_bytes(b"".join(OFFSET_ENTRY.pack(offset, -5) for offset in offsets))
    problems: list[str] = []
    assert list(dump_file(index, problems=problems))[1:] == [f"offset: {offset} position: -5" for offset in offsets]
    wrong = [f"  Index offset: {offset}, log offset: -1" for offset in offsets]
    assert problems == [f"Mismatches in :{index}", *wrong]
    problems.clear()
    assert len(list(dump_file(times, problems=problems))) == 1 + len(dump.time_index_entries(str(times)))
    assert problems[0] == "The following indexed offsets are not found in the log."


def test_a_time_index_with_an_offset_before_its_segment_is_not_sane(tmp_path: Path) -> None:
    times = sample(tmp_path).dir / "00000000000000000000.timeindex"
    times.write_bytes(times.read_bytes()[: -TIME_ENTRY.size] + TIME_ENTRY.pack(NOW + 10**6, -1))
    problems: list[str] = []
    assert list(dump_file(times, index_sanity_check=True, problems=problems)) == [f"Dumping {times}"]
    assert problems == [f"{times} is corrupt"]
