"""Runs the reading queries of `benchmarks.spark_read` in a Spark of its own, one after another as they are asked for.

    python -m benchmarks.jobs.spark_read DIRECTORY JARS

Each line of standard input is a job as JSON: job, source, options and rows, and for the source "ceiling" records,
partitions and size. The answer is a line with its seconds, or with the number of rows where `rows` is set.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.spark_jobs import serve


def _run(spark: Any, order: dict[str, Any], directory: Path) -> float:
    began = time.perf_counter()
    streaming = order["job"] == "AvailableNow"
    reader = (spark.readStream if streaming else spark.read).format(order["source"])
    value_only = order["job"] == "batch, value"
    if value_only and order["source"] != "kafka":
        reader = reader.schema("value BINARY")
    if order["source"] == "ceiling":
        options = {name: str(order[name]) for name in ("records", "partitions", "size")}
    else:
        options = order["options"]
    frame = reader.options(**options).load()
    if value_only:
        frame = frame.select("value")
    if order["rows"]:
        return int(frame.count())
    if streaming:
        checkpoint = tempfile.mkdtemp(dir=directory)
        query = frame.writeStream.format("noop").option("checkpointLocation", checkpoint).trigger(availableNow=True)
        query.start().awaitTermination()
    elif order["job"] == "count":
        frame.count()
    elif order["job"] == "aggregate":
        frame.selectExpr("sum(length(value))", "max(offset)", "min(timestamp)").collect()
    else:
        frame.write.format("noop").mode("overwrite").save()
    return time.perf_counter() - began


def _register(spark: Any) -> None:
    from benchmarks.peers.ceiling import Ceiling

    spark.dataSource.register(Ceiling)


def main(directory: str, jars: str) -> None:
    """Serve; the source "ceiling" is only there without jars."""
    serve(_run, directory, jars, prepare=None if jars else _register)


if __name__ == "__main__":
    main(*sys.argv[1:])
