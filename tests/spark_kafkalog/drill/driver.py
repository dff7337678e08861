"""A driver that streams a topic into Parquet until it is killed, or to the end with `drain`.

    python -m tests.spark_kafkalog.drill.driver {stream|drain} BOOTSTRAP TOPIC DIRECTORY

Prints "batch N" for every batch that is done.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.spark_kafkalog.session import start_session


def main(mode: str, bootstrap: str, topic: str, directory: str) -> None:
    spark = start_session(Path(tempfile.mkdtemp(dir=directory)))
    frame = (
        spark.readStream.format("kafkalog")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        # Small batches: more moments between two steps of a commit.
        .option("maxOffsetsPerTrigger", 2000 if mode == "stream" else 1_000_000)
        .load()
    )
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
    writer = writer.trigger(availableNow=True) if mode == "drain" else writer.trigger(processingTime="0 seconds")
    query = writer.start(f"{directory}/out")
    print("started", flush=True)
    seen = -1
    while not query.awaitTermination(1 if mode == "drain" else 0.05):  # type: ignore[arg-type]
        progress = query.lastProgress
        if progress is not None and progress.batchId != seen:
            seen = progress.batchId
            print(f"batch {seen}", flush=True)
    print("drained", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
