"""Directories that Spark's file sink writes, and the checkpoints that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .arguments import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

METADATA = "_spark_metadata"
"""Where the file sink keeps the numbers of the micro-batches that it has written."""


def check_written(spark: SparkSession, option: str, directory: str, checkpoint: str) -> None:
    """UsageError where a query with another checkpoint has written ``directory``.

    The file sink passes over a micro-batch whose number it has written. A new checkpoint counts from 0 again, so that
    its first rows would be missing without a word.
    """
    if _exists(spark, f"{directory}/{METADATA}") and not _exists(spark, f"{checkpoint}/offsets"):
        raise UsageError(
            f"{option} {directory} was written with another checkpoint: Spark would leave out the first rows. Take "
            "that checkpoint, or another directory"
        )


def _exists(spark: SparkSession, path: str) -> bool:
    context: Any = spark.sparkContext
    found = context._jvm.org.apache.hadoop.fs.Path(path)
    return bool(found.getFileSystem(context._jsc.hadoopConfiguration()).exists(found))
