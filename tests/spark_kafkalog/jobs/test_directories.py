"""Tests of directories of the file sink and their checkpoints."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_kafkalog.compat.gateway import hadoop_files
from spark_kafkalog.jobs.arguments import UsageError
from spark_kafkalog.jobs.directories import check_written

pytestmark = pytest.mark.spark
Write = Callable[[Path, Path], None]


@pytest.fixture
def write(spark: SparkSession, tmp_path: Path) -> Write:
    """Return a function that adds a row to the input, and has a query write it to a directory with a checkpoint."""
    source = tmp_path / "in"

    def run(out: Path, checkpoint: Path) -> None:
        check_written(spark, "--output", str(out), str(checkpoint))
        spark.range(1).write.mode("append").json(str(source))
        rows = spark.readStream.schema("id BIGINT").json(str(source))
        query = rows.writeStream.format("parquet").option("path", str(out))
        query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()

    return run


def test_a_directory_belongs_to_its_checkpoint(spark: SparkSession, write: Write, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    write(out, checkpoint)
    write(out, checkpoint)
    assert spark.read.parquet(str(out)).count() == 2
    with pytest.raises(UsageError, match=r"--output .* was written with another checkpoint"):
        write(out, tmp_path / "new")


def test_checkpoints_are_not_swapped(write: Write, tmp_path: Path) -> None:
    """Not even with one that has planned as many micro-batches as the directory has."""
    for name in ("one", "two"):
        write(tmp_path / name, tmp_path / f"checkpoint-{name}")
    with pytest.raises(UsageError, match=r"--output .* was written with another checkpoint"):
        write(tmp_path / "one", tmp_path / "checkpoint-two")


def test_a_checkpoint_from_a_backup_is_refused(write: Write, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    write(out, checkpoint)
    shutil.copytree(checkpoint, tmp_path / "backup")
    write(out, checkpoint)
    with pytest.raises(UsageError, match=r"has micro-batches up to 1, but the checkpoint only up to 0"):
        write(out, tmp_path / "backup")


def test_directories_of_jobs_without_ids_go_on(spark: SparkSession, write: Write, tmp_path: Path) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    write(out, checkpoint)
    (out / "_kafkalog_checkpoint").unlink()
    (checkpoint / "kafkalog-id").unlink()
    write(out, checkpoint)
    write(out, checkpoint)
    assert spark.read.parquet(str(out)).count() == 3


def test_a_directory_without_an_id_is_not_claimed_by_another_checkpoint(
    spark: SparkSession, write: Write, tmp_path: Path
) -> None:
    """Jobs of an earlier version wrote both directories, and one was started since."""
    for name in ("one", "two"):
        write(tmp_path / name, tmp_path / f"checkpoint-{name}")
        (tmp_path / name / "_kafkalog_checkpoint").unlink()
        (tmp_path / f"checkpoint-{name}" / "kafkalog-id").unlink()
    write(tmp_path / "two", tmp_path / "checkpoint-two")
    with pytest.raises(UsageError, match=r"--output .* was written with another checkpoint"):
        write(tmp_path / "one", tmp_path / "checkpoint-two")
    write(tmp_path / "one", tmp_path / "checkpoint-one")
    assert spark.read.parquet(str(tmp_path / "one")).count() == 4


@pytest.mark.parametrize("written", [0, 1], ids=["none is written", "one is written"])
def test_a_claim_that_was_interrupted_is_made_again(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    out, checkpoint = tmp_path / "out", tmp_path / "checkpoint"
    write(out, checkpoint)
    (out / "_kafkalog_checkpoint").unlink()
    (checkpoint / "kafkalog-id").unlink()
    left = written

    def write_some(spark: SparkSession, path: str, text: str) -> bool:
        nonlocal left
        if left == 0:
            raise InterruptedError
        left -= 1
        return write_text(spark, path, text)

    write_text = hadoop_files.write_text
    monkeypatch.setattr(hadoop_files, "write_text", write_some)
    with pytest.raises(InterruptedError):
        write(out, checkpoint)
    monkeypatch.undo()
    write(out, checkpoint)
    assert (out / "_kafkalog_checkpoint").read_text() == (checkpoint / "kafkalog-id").read_text().split()[0]
