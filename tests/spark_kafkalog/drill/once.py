"""A driver that streams a topic to another, exactly once, until it is killed; its queries are started again.

    python -m tests.spark_kafkalog.drill.once TO BOOTSTRAP TOPIC DIRECTORY

TO is the transactional id, too. Prints "batch N" for every batch that is done, "failed: …" for a query that failed.
Where DIRECTORY/fail is, a task removes it and fails.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tests.spark_kafkalog.session import start_session

RETRIES = {"spark.master": "local[2,3]"}
"""Spark master: two tasks at a time, each tried three times."""


def start(spark: SparkSession, bootstrap: str, topic: str, to: str, directory: str) -> StreamingQuery:
    order = Path(directory, "fail")

    def fail_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches
        if order.exists():
            order.unlink()
            raise RuntimeError("this attempt was asked to fail")

    servers = {"kafka.bootstrap.servers": bootstrap}
    frame = spark.readStream.format("kafkalog").options(**servers, subscribe=topic, startingOffsets="earliest")
    # Small batches: more moments between two steps of a commit.
    rows = frame.option("maxOffsetsPerTrigger", 60).load().select("value").mapInArrow(fail_once, "value BINARY")
    writer = rows.writeStream.format("kafkalog").options(**servers, topic=to)
    writer = writer.option("kafka.transactional.id", to).option("checkpointLocation", f"{directory}/checkpoint")
    return writer.start()


def main(to: str, bootstrap: str, topic: str, directory: str) -> None:
    spark = start_session(Path(tempfile.mkdtemp(dir=directory)), RETRIES)
    seen = -1
    while True:
        query = start(spark, bootstrap, topic, to, directory)
        print("started", flush=True)
        try:
            while not query.awaitTermination(0.05):  # type: ignore[arg-type]
                progress = query.lastProgress
                if progress is not None and progress.numInputRows and progress.batchId != seen:
                    seen = progress.batchId
                    print(f"batch {seen}", flush=True)
        except StreamingQueryException as error:
            print(f"failed: {error}", flush=True)
            time.sleep(0.2)


if __name__ == "__main__":
    main(*sys.argv[1:])
