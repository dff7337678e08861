"""Tests of a compaction whose tasks run more than once: executors are lost, and Spark speculates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from spark_kafkalog.fs.local import LocalFiles
from spark_kafkalog.load.compact import MergeTask, compact, merge
from spark_kafkalog.load.layout.file_names import SIGN, file_name, load_name
from spark_kafkalog.load.runner import R, T, ThreadRunner
from tests.spark_kafkalog.load.compacting import HOUR, LOADS, publish_loads
from tests.spark_kafkalog.load.loading import data_files, rows_of


class RepeatingRunner:
    """Runs each task three times, as Spark may, and returns the results of attempt `accepted`."""

    parallelism = 1

    def __init__(self, accepted: int) -> None:
        self._accepted = accepted

    def run(self, work: Callable[[T], R], tasks: Sequence[T]) -> list[R]:
        return [[work(task) for _ in range(3)][self._accepted] for task in tasks]

    def progress(self) -> tuple[int, int]:
        return 0, 0


@pytest.mark.parametrize("accepted", range(3))
def test_tasks_that_run_again_do_not_fail(tmp_path: Path, accepted: int) -> None:
    files, path = LocalFiles(), f"{tmp_path}/words"
    publish_loads(path)
    done = compact(files, path, lambda: RepeatingRunner(accepted))
    assert (done.files_before, done.files_after, done.rows) == (LOADS, 1, LOADS)
    merged = f"{path}/{load_name(LOADS - 1)}/{HOUR}/{file_name('words', 0, 0, LOADS, 'parquet')}"
    assert data_files(files, path) == [merged]
    assert rows_of(files, path) == {(0, load): b"%d" % load for load in range(LOADS)}


@pytest.mark.parametrize("topic", [SIGN, f"{SIGN}.eu"])
def test_a_topic_may_be_called_as_the_sign_of_a_compaction_is(topic: str, tmp_path: Path) -> None:
    files, path = LocalFiles(), f"{tmp_path}/{topic}"
    publish_loads(path)
    assert compact(files, path, lambda: ThreadRunner(1)).files_before == LOADS
    assert rows_of(files, path) == {(0, load): b"%d" % load for load in range(LOADS)}


def test_what_is_left_of_an_attempt_is_no_data_file(tmp_path: Path) -> None:
    """Readers take all `*.parquet` below a topic, whatever its directory."""
    publish_loads(f"{tmp_path}/words")
    inputs = tuple(data_files(LocalFiles(), f"{tmp_path}/words"))
    task = MergeTask(LocalFiles(), inputs, f"{tmp_path}/merged.parquet.new", 3)
    first, second = merge(task), merge(task)
    assert sorted(each.name for each in tmp_path.glob("*.new")) == sorted(
        Path(each.path).name for each in (first, second)
    )
    assert first.path != second.path
    assert (first.rows, first.bytes) == (second.rows, second.bytes)
