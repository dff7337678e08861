"""Runs the loads of `benchmarks.load` in a Spark of its own, one after another as they are asked for.

    python -m benchmarks.jobs.load DIRECTORY JARS

Each line of standard input is an order as JSON: contestant (connector or load), topic, bootstrap. The answer is a line
with its seconds, rows and bytes on disk. What was written is counted from the files and deleted afterwards.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.spark_kafkalog.session import start_session

DRIVER_MEMORY = "2g"
CONNECTOR, LOAD = "connector", "load"


def serve(directory: str, jars: str) -> None:
    """Run the orders that come as lines of JSON."""
    options = {"spark.driver.memory": DRIVER_MEMORY, "spark.sql.parquet.compression.codec": "zstd"}
    if jars:
        options["spark.jars"] = jars
    spark = start_session(Path(tempfile.mkdtemp(dir=directory)), options, measured=True)
    for line in sys.stdin:
        target = Path(tempfile.mkdtemp(dir=directory))
        seconds = _run(spark, json.loads(line), target)
        # Staging is deleted by a load itself.
        files = [path for path in target.rglob("*.parquet") if path.is_file()]
        rows = sum(pq.read_metadata(path).num_rows for path in files)
        size = sum(path.stat().st_size for path in files)
        shutil.rmtree(target)
        print(json.dumps({"seconds": seconds, "rows": rows, "bytes": size, "files": len(files)}), flush=True)
    spark.stop()


def _run(spark: Any, order: dict[str, str], target: Path) -> float:
    began = time.perf_counter()
    if order["contestant"] == CONNECTOR:
        servers = {"kafka.bootstrap.servers": order["bootstrap"], "subscribe": order["topic"]}
        frame = spark.read.format("kafka").options(**servers, startingOffsets="earliest", includeHeaders="true").load()
        frame.write.parquet(str(target / "out"))
    else:
        from spark_kafkalog.load import job
        from spark_kafkalog.load.load_options import LoadOptions
        from spark_kafkalog.load.runner import SparkRunner

        topic = order["topic"]
        options = LoadOptions(order["bootstrap"], (topic,), str(target))
        job.load_topic(options, topic, lambda: SparkRunner(spark.sparkContext))
    return time.perf_counter() - began


if __name__ == "__main__":
    serve(*sys.argv[1:])
