"""Traces of a query in directories: the log of Spark's file sink, and a checkpoint's offset log.

Python has no interface to Hadoop's file systems, so this goes through py4j to the JVM (``SparkContext._jvm`` and
``_jsc``). Without py4j, as in Spark Connect, the answer is unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SINK_LOG = "_spark_metadata"
"""The directory where the file sink stores the numbers of the micro-batches that it has written."""
_OFFSETS = "offsets"


def has_written(spark: SparkSession, directory: str) -> bool | None:
    """Return whether a query's file sink has written a directory; None if unknown."""
    return _exists(spark, f"{directory}/{_SINK_LOG}")


def has_begun(spark: SparkSession, checkpoint: str) -> bool | None:
    """Return whether a query has begun with a checkpoint; None if unknown."""
    return _exists(spark, f"{checkpoint}/{_OFFSETS}")


def _exists(spark: SparkSession, path: str) -> bool | None:
    try:
        context: Any = spark.sparkContext
        jvm, java_context = context._jvm, context._jsc
    except (AttributeError, NotImplementedError):
        return None
    if jvm is None or java_context is None:
        return None
    found = jvm.org.apache.hadoop.fs.Path(path)
    return bool(found.getFileSystem(java_context.hadoopConfiguration()).exists(found))
