"""Tests of directories of the file sink and their checkpoints."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_kafkalog.jobs.arguments import UsageError
from spark_kafkalog.jobs.directories import check_written


def test_a_directory_belongs_to_its_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    source, out, checkpoint = tmp_path / "in", tmp_path / "out", tmp_path / "checkpoint"
    spark.range(3).write.json(str(source))

    def write(to: Path) -> None:
        check_written(spark, "--output", str(out), str(to))
        rows = spark.readStream.schema("id BIGINT").json(str(source))
        query = rows.writeStream.format("parquet").option("path", str(out)).option("checkpointLocation", str(to))
        query.trigger(availableNow=True).start().awaitTermination()

    write(checkpoint)
    write(checkpoint)
    assert spark.read.parquet(str(out)).count() == 3
    with pytest.raises(UsageError, match=r"--output .* was written with another checkpoint"):
        write(tmp_path / "new")
