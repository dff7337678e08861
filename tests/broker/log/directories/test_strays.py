"""Replicas that are not in use: how long they are kept."""

from __future__ import annotations

from pathlib import Path

from broker.log.directories.strays import mark_stray, read_stray
from broker.log.files.file_ops import OS
from broker.log.log_manager import LogManager
from kafkalog.storage import names
from kafkalog.storage.properties import Stray, format_stray, parse_stray
from tests.broker.log.managers import Clock, fill, start

DAY_MS = 86_400_000


def strays(directory: Path) -> list[Path]:
    return sorted(path for path in directory.iterdir() if path.name.endswith(names.STRAY_DIR))


def set_aside(manager: LogManager, topic: str, stray: Stray) -> None:
    log = fill(manager, topic)
    mark_stray(log.dir, stray, OS)
    manager.set_aside(topic, 0, stray.reason, stray)
    manager.sync_directories()


def test_the_file_says_since_when_and_why() -> None:
    stray = Stray(17, "it was\nmoved")
    assert parse_stray(format_stray(stray)) == Stray(17, "it was moved")
    for damaged in (b"", b"version: 0\n", b"version: 1\nsince_ms: 17\n", b"version: 0\nsince_ms: -1\n", b"\xff\x00"):
        assert parse_stray(damaged) is None


def test_a_stray_is_kept_over_restarts_until_its_time_is_over(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path, clock=Clock())
    set_aside(manager, "words", Stray(5 * DAY_MS, "it is not assigned here"))
    assert manager.get("words", 0) is None
    (path,) = strays(tmp_path)
    assert read_stray(path) == Stray(5 * DAY_MS, "it is not assigned here")
    assert (path / "00000000000000000000.log").stat().st_size
    manager.shutdown()
    managers.clear()
    manager = start(managers, tmp_path, clock=Clock())
    assert manager.get("words", 0) is None
    assert len(manager.strays) == 1
    assert manager.strays.remove_due(12 * DAY_MS - 1, 7 * DAY_MS) == []
    assert manager.strays.remove_due(1 << 60, -1) == []
    assert manager.strays.remove_due(12 * DAY_MS, 7 * DAY_MS) == [path]
    assert len(manager.strays) == 0
    manager.run_deletions(12 * DAY_MS)
    assert [each.name for each in tmp_path.iterdir() if each.name.startswith("words")] == []


def test_a_stray_of_somebody_else_stays(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path, clock=Clock())
    fill(manager, "words")
    manager.set_aside("words", 0)
    assert len(manager.strays) == 1
    assert manager.strays.remove_due(1 << 60, 0) == []
    assert len(strays(tmp_path)) == 1


def test_a_log_that_is_marked_and_not_renamed_is_served(tmp_path: Path, managers: list[LogManager]) -> None:
    """The process may end between the two."""
    manager = start(managers, tmp_path, clock=Clock())
    log = fill(manager, "words")
    mark_stray(log.dir, Stray(1, "it was not assigned here"), OS)
    manager.shutdown()
    managers.clear()
    manager = start(managers, tmp_path, clock=Clock())
    found = manager.get("words", 0)
    assert found is not None
    assert found.log_end_offset == log.log_end_offset
    assert len(manager.strays) == 0


def test_a_partition_can_be_made_again_beside_its_stray(tmp_path: Path, managers: list[LogManager]) -> None:
    manager = start(managers, tmp_path, clock=Clock())
    set_aside(manager, "words", Stray(0, "the topic was created again"))
    assert fill(manager, "words", count=3).log_end_offset == 6
    set_aside(manager, "words", Stray(0, "the topic was created again"))
    assert len(strays(tmp_path)) == 2
