"""Runs the streaming queries of `benchmarks.spark_latency` in a Spark of its own, one after another.

    python -m benchmarks.jobs.spark_latency DIRECTORY JARS

Each line of standard input is an order as JSON: source, topic, bootstrap, trigger, warm_up and seconds. The answer is a
line with the milliseconds from each record's making to its row's arrival, and the number of batches.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.spark_jobs import serve


def _run(spark: Any, order: dict[str, Any], directory: Path) -> dict[str, Any]:
    latencies: list[float] = []
    batches = 0
    measured_from = time.time_ns() + int(order["warm_up"] * 1e9)

    def arrived(frame: Any, _: int) -> None:
        nonlocal batches
        rows = frame.select("value").collect()
        now = time.time_ns()
        if now >= measured_from and rows:
            batches += 1
            latencies.extend((now - int(row.value)) / 1e6 for row in rows)

    options = {"kafka.bootstrap.servers": order["bootstrap"], "subscribe": order["topic"], "startingOffsets": "latest"}
    writer = spark.readStream.format(order["source"]).options(**options).load().writeStream.foreachBatch(arrived)
    writer = writer.option("checkpointLocation", tempfile.mkdtemp(dir=directory))
    query = writer.trigger(processingTime=order["trigger"]).start()
    query.awaitTermination(order["warm_up"] + order["seconds"])
    query.stop()
    return {"latencies": latencies, "batches": batches}


if __name__ == "__main__":
    serve(_run, *sys.argv[1:])
