"""Tests of compactions of one topic that overlap: one is done, and the other one says so and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from spark_kafkalog import faults
from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.load.compact import Compacted, compact
from spark_kafkalog.load.compact_plan import CompactionRunsError
from spark_kafkalog.load.layout.file_names import COMPACTING, file_name, load_name
from spark_kafkalog.load.runner import Runner, TaskFailedError, ThreadRunner
from tests.spark_kafkalog.load.compacting import HOUR, LOADS, publish_loads
from tests.spark_kafkalog.load.loading import data_files, rows_of
from tests.support.command import call

HOURS = [HOUR, "date=2026-11-21/hour=19"]


def run(path: str, runner: Runner | None = None) -> Compacted:
    return compact(LocalFiles(), path, lambda: runner or ThreadRunner(1))


class Overtaken(ThreadRunner):
    """Another compaction runs from its beginning to its end before the tasks do."""

    def __init__(self, path: str, *, on_executors: bool) -> None:
        super().__init__(1)
        self._path = path
        self._on_executors = on_executors

    def run(self, work, tasks):  # type: ignore[no-untyped-def]
        assert run(self._path).files_before == LOADS
        try:
            return super().run(work, tasks)
        except FileNotFoundError as error:
            if self._on_executors:
                raise TaskFailedError(f"FileNotFoundError: {error}") from None
            raise


def check_rows(path: str, hours: Sequence[str] = (HOUR,)) -> None:
    """Check that every row is there once, and that nothing of a compaction is left."""
    assert rows_of(LocalFiles(), path) == {
        (number, load): b"%d" % load for number in range(len(hours)) for load in range(LOADS)
    }
    assert not (Path(path) / COMPACTING).exists()


@pytest.mark.parametrize("on_executors", [False, True])
def test_another_one_ends_before_the_files_are_merged(tmp_path: Path, on_executors: bool) -> None:
    path = f"{tmp_path}/words"
    publish_loads(path)
    with pytest.raises(CompactionRunsError, match="was first"):
        run(path, Overtaken(path, on_executors=on_executors))
    check_rows(path)


def test_another_one_ends_after_the_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{tmp_path}/words"
    publish_loads(path)

    def point(name: str) -> None:
        if name == "compact-merged":
            monkeypatch.setattr(faults, "point", lambda name: None)
            assert run(path).files_before == LOADS

    monkeypatch.setattr(faults, "point", point)
    with pytest.raises(CompactionRunsError, match="was first"):
        run(path)
    check_rows(path)
    assert len(data_files(LocalFiles(), path)) == 1


def test_only_what_was_exchanged_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{tmp_path}/words"
    publish_loads(path, HOURS)

    def point(name: str) -> None:
        if name == "compact-merged":
            (Path(path) / load_name(0) / HOURS[1] / file_name("words", 1, 0, 1, "parquet")).unlink()

    monkeypatch.setattr(faults, "point", point)
    done = run(path)
    assert (done.files_before, done.files_after, done.rows) == (LOADS, 1, LOADS)
    assert len(rows_of(LocalFiles(), path)) == 2 * LOADS - 1


def test_nothing_is_merged_while_another_one_exchanges_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"{tmp_path}/words"
    publish_loads(path, HOURS)
    refused: list[CompactionRunsError] = []

    def no_runner() -> Runner:
        raise AssertionError("it must not merge")

    def point(name: str) -> None:
        # The first hour's files are exchanged. Those of the second could still be merged.
        if name == "compact-sign-down" and not refused:
            with pytest.raises(CompactionRunsError, match="is under way") as raised:
                compact(LocalFiles(), path, no_runner)
            refused.append(raised.value)

    monkeypatch.setattr(faults, "point", point)
    assert run(path).files_before == 2 * LOADS
    assert refused
    check_rows(path, HOURS)


def test_a_topic_whose_compaction_is_late_keeps_no_other_from_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, next_ = (f"{tmp_path}/{name}" for name in ("clicks", "words"))
    for path in (late, next_):
        publish_loads(path)

    def point(name: str) -> None:
        if name == "compact-merged":
            monkeypatch.setattr(faults, "point", lambda name: None)
            run(late)

    monkeypatch.setattr(faults, "point", point)
    done = call("load", "compact", "--to", str(tmp_path), check=3)
    assert f"another compaction of {late} was first" in done.err
    assert [line.partition(" (")[0] for line in done.out] == ["words: 3 files became 1"]
    for path in (late, next_):
        check_rows(path)


def test_a_topic_without_a_document_keeps_no_other_from_it(tmp_path: Path) -> None:
    publish_loads(f"{tmp_path}/words")
    (tmp_path / "clicks" / load_name(0)).mkdir(parents=True)
    done = call("load", "compact", "--to", str(tmp_path), check=1)
    assert "_offsets.json is missing" in done.err
    assert [line.partition(" (")[0] for line in done.out] == ["words: 3 files became 1"]
