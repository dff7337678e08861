"""What a query has left in directories: the log of Spark's file sink, and that of a checkpoint's offsets.

Python has no interface to Hadoop's file systems, therefore the JVM is asked through py4j (``SparkContext._jvm`` and
``_jsc``). Where there is no such way, as in Spark Connect, nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SINK_LOG = "_spark_metadata"
"""Where the file sink keeps the numbers of the micro-batches that it has written."""
_OFFSETS = "offsets"


def has_written(spark: SparkSession, directory: str) -> bool | None:
    """Whether a query's file sink has written a directory; None where that cannot be found out."""
    return _exists(spark, f"{directory}/{_SINK_LOG}")


def has_begun(spark: SparkSession, checkpoint: str) -> bool | None:
    """Whether a query has begun with a checkpoint; None where that cannot be found out."""
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
