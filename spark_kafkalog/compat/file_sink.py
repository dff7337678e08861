"""Traces of a query in directories: the log of Spark's file sink, and a checkpoint's offset log.

Python has no interface to Hadoop's file systems, so `has_written` and `has_begun` go through py4j to the JVM
(`SparkContext._jvm` and `_jsc`). Without py4j, as in Spark Connect, the answer is unknown. The sink's log is in a
format of Spark's own. With a PySpark that was not tested nothing of this is used, and every answer is unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from spark_kafkalog.compat.versions import is_tested

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


def written_files(directory: Path) -> list[Path] | None:
    """Return the local files that a query's file sink has committed to a directory; None if unknown.

    A task that crashed may have left other files there.

    Raises:
        FileNotFoundError: No query has written the directory.
    """
    if not is_tested():
        return None
    names: dict[str, None] = {}
    for log in sorted((directory / _SINK_LOG).iterdir()):
        if log.name.startswith("."):
            continue
        for line in log.read_text().splitlines()[1:]:
            names[unquote(urlparse(json.loads(line)["path"]).path)] = None
    return [Path(name) for name in names]


def _exists(spark: SparkSession, path: str) -> bool | None:
    if not is_tested():
        return None
    try:
        context: Any = spark.sparkContext
        jvm, java_context = context._jvm, context._jsc
    except (AttributeError, NotImplementedError):
        return None
    if jvm is None or java_context is None:
        return None
    found = jvm.org.apache.hadoop.fs.Path(path)
    return bool(found.getFileSystem(java_context.hadoopConfiguration()).exists(found))
