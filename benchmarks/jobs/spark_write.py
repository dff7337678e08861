"""Runs the writing queries of `benchmarks.spark_write` in a Spark of its own, one after another as asked.

    python -m benchmarks.jobs.spark_write DIRECTORY JARS

Each line of standard input is a job as JSON: rows (a Parquet file), columns, format, topic, properties of the producer
and conf of the session. The answer is a line with its seconds.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.spark_jobs import serve


def _run(spark: Any, order: dict[str, Any], _: Path) -> float:
    for key, value in order["conf"].items():
        spark.conf.set(key, value)
    began = time.perf_counter()
    frame = spark.read.parquet(order["rows"]).select(*order["columns"])
    writer = frame.write.format(order["format"]).mode("append").option("topic", order["topic"])
    if order["format"] == "noop":
        writer = frame.write.format("noop").mode("overwrite")
    writer.options(**{f"kafka.{key}": value for key, value in order["properties"].items()}).save()
    return time.perf_counter() - began


if __name__ == "__main__":
    serve(_run, *sys.argv[1:])
