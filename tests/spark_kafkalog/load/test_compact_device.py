"""Test that the steps of a compaction are on the device in their order: a machine that fails loses no file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.load.compact import compact
from spark_kafkalog.load.layout.file_names import COMPACTING
from spark_kafkalog.load.runner import ThreadRunner
from tests.spark_kafkalog.load.compacting import publish_loads

Event = tuple[str, str]
"""The source and the target of a rename; or "" and a directory that was forced to the device."""


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Return what a compaction of two hours does, in order."""
    found: list[Event] = []
    rename, sync = LocalFiles.rename, LocalFiles.sync

    def noted_rename(self: LocalFiles, source: str, target: str) -> None:
        rename(self, source, target)
        found.append((source, target))

    def noted_sync(self: LocalFiles, path: str) -> None:
        sync(self, path)
        found.append(("", path))

    publish_loads(f"{tmp_path}/words", ["date=2026-11-21/hour=18", "date=2026-11-21/hour=19"])
    with monkeypatch.context() as patched:
        patched.setattr(LocalFiles, "rename", noted_rename)
        patched.setattr(LocalFiles, "sync", noted_sync)
        assert compact(LocalFiles(), f"{tmp_path}/words", lambda: ThreadRunner(1)).files_after == 2
    return found


def test_the_commit_is_on_the_device_before_a_file_moves(events: list[Event], tmp_path: Path) -> None:
    """Or the work, with the files that were moved to it, could be in staging again, and be swept."""
    targets = [target for _, target in events]
    assert events[targets.index(f"{tmp_path}/words/{COMPACTING}") + 1] == ("", f"{tmp_path}/words")


def test_the_new_place_of_a_file_is_on_the_device_before_its_old_one(events: list[Event]) -> None:
    """Or a file could be in neither."""
    work = f"/{COMPACTING}/"
    moves = [at for at, (source, target) in enumerate(events) if source and work in source + target]
    assert len(moves) > 20
    # The last one moves all that is left to where it is swept.
    for at in moves[:-1]:
        source, target = map(os.path.dirname, events[at])
        later = [path for moved, path in events[at:] if not moved]
        assert target in later, events[at]
        assert source not in later[: later.index(target)], events[at]
