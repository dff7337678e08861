"""Traces of a query in directories: the log of Spark's file sink, and a checkpoint's offset log.

The names in both are numbers of micro-batches, which is Spark's own format, and so is the sink's log. With a PySpark
that was not tested nothing of this is used, and every answer is unknown.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from spark_kafkalog.compat.gateway import hadoop_files
from spark_kafkalog.compat.versions import is_tested

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SINK_LOG = "_spark_metadata"
"""The directory where the file sink stores the numbers of the micro-batches that it has written."""
_OFFSETS = "offsets"
_COMPACT = ".compact"


def last_written(spark: SparkSession, directory: str) -> int | None:
    """Return the last micro-batch that a query's file sink has written; -1 if there is none, None if unknown."""
    return _last(spark, f"{directory}/{_SINK_LOG}")


def last_planned(spark: SparkSession, checkpoint: str) -> int | None:
    """Return the last micro-batch that was planned with a checkpoint; -1 if there is none, None if unknown."""
    return _last(spark, f"{checkpoint}/{_OFFSETS}")


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


def _last(spark: SparkSession, directory: str) -> int | None:
    found = hadoop_files.names(spark, directory)
    if found is None:
        return None
    numbers = [name.removesuffix(_COMPACT) for name in found]
    return max((int(each) for each in numbers if each.isascii() and each.isdigit()), default=-1)
