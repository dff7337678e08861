"""Test the first command of a user, as a user runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as ds
import pytest

from spark_kafkalog.cli.quickstart import own_directory, state_of_reading

LINES = 20_000


def quickstart(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kafkalog.cli.main", "quickstart", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )


@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_line_is_in_the_parquet_files_once_though_the_broker_is_killed(tmp_path: Path) -> None:
    text = tmp_path / "input.log"
    text.write_text("".join(f"line {n}\n" for n in range(LINES)) + "the last, without an end")
    done = quickstart(str(text), "--kill-broker", "--partitions", "2", "--directory", "data", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "is killed" in done.stdout
    assert f"acknowledged     {LINES + 1:,} in" in done.stdout
    [directory] = (tmp_path / "data").iterdir()
    files = [str(path) for path in directory.glob("parquet/*.parquet")]
    rows = ds.dataset(files, format="parquet").to_table()
    assert rows.num_rows == LINES + 1
    assert sorted(rows["line"].to_pylist())[-1] == "the last, without an end"
    assert len(set(zip(rows["partition"].to_pylist(), rows["offset"].to_pylist(), strict=True))) == LINES + 1


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.log"], "missing.log is not a file"),
        (["binary"], "binary is empty or not text"),
        (["text", "--directory", "binary"], "--directory binary: File exists; name a directory"),
        (["text", "--directory", "binary/below"], "--directory binary/below: Not a directory"),
        (["--partitions", "0"], "--partitions must be at least 1"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    (tmp_path / "text").write_text("a line\n")
    done = quickstart(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_runs_of_one_second_have_directories_of_their_own(tmp_path: Path) -> None:
    made = [own_directory(tmp_path / "new") for _ in range(5)]
    assert len(set(made)) == 5
    assert all(directory.is_dir() for directory in made)


def test_the_first_batch_is_not_shown_as_no_rows() -> None:
    """It takes as long as starting Python workers and compiling take, whatever was sent meanwhile."""
    assert state_of_reading(0, "Processing new data") == "Spark's first batch: processing new data"
    assert state_of_reading(1234567, "Processing new data") == "read by Spark    1,234,567 rows"
