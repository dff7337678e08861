"""A driver whose first batch never ends, for a test that kills it there; with `drain`, one that continues.

    python -m tests.spark_kafkalog.drill.first {hang|drain} BOOTSTRAP TOPIC DIRECTORY

Starts at the latest offsets. The batches go to DIRECTORY/out, a Parquet directory for each.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame

from tests.spark_kafkalog.session import start_session


def main(mode: str, bootstrap: str, topic: str, directory: str) -> None:
    spark = start_session(Path(tempfile.mkdtemp(dir=directory)))

    def process(batch: DataFrame, number: int) -> None:
        if mode == "hang":
            # Read, but not done: what it has read is gone with it.
            print(f"batch {number} has {batch.count()} records", flush=True)
            time.sleep(600)
        batch.write.mode("overwrite").parquet(f"{directory}/out/batch={number}")

    frame = spark.readStream.format("kafkalog").option("kafka.bootstrap.servers", bootstrap)
    frame = frame.option("subscribe", topic).option("startingOffsets", "latest")
    writer = frame.load().writeStream.foreachBatch(process).option("checkpointLocation", f"{directory}/checkpoint")
    if mode == "drain":
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()
    print("drained", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
