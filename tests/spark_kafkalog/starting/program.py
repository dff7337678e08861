"""Run queries in a Spark of its own, and tell how its Python processes were started.

python -m tests.spark_kafkalog.starting.program DIRECTORY BOOTSTRAP TOPIC PYTHON [KEY=VALUE…]
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from tests.spark_kafkalog.session import start_session


def worker(_: int) -> list[Any]:
    """Tell what a Python worker has imported, and a random number of numpy's."""
    import sys

    had = sorted({"pyarrow", "numba", "pyspark", "spark_kafkalog.executor.range_reader"} & set(sys.modules))
    import numpy.random

    from spark_kafkalog.compat.workers.processes import is_worker

    return [had, sys.modules["pyspark"].__file__, is_worker(), float(numpy.random.random())]


def launchers() -> list[str]:
    """Return what the running launchers were asked for."""
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            words = " ".join(process.cmdline())
            if "spark_kafkalog.starting.launch" in words:
                found.append(words.rpartition(" -m ")[2])
    return found


def run(spark: SparkSession, directory: Path, bootstrap: str, topic: str) -> dict[str, Any]:
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("kafkalog").options(**options).load()
    found: dict[str, Any] = {"batch": [bytes(row.value).decode() for row in batch.sort("offset").collect()]}
    stream = spark.readStream.format("kafkalog").options(**options).load().selectExpr("CAST(value AS STRING) AS value")
    query = (
        stream.writeStream.format("memory").queryName("rows")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .start()
    )  # fmt: skip
    try:
        query.processAllAvailable()
        found["stream"] = [row.value for row in spark.table("rows").collect()]
        found["launchers"] = launchers()
    finally:
        query.stop()
    found["workers"] = spark.sparkContext.parallelize(range(2), 2).map(worker).collect()
    return found


def main(directory: str, bootstrap: str, topic: str, python: str, *settings: str) -> None:
    spark = start_session(Path(directory), dict(each.split("=", 1) for each in settings), python=python)
    found = run(spark, Path(directory), bootstrap, topic)
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
