"""The program that the test of PySpark 4.2 runs in its environment.

    python -m tests.spark_kafkalog.drill.older BOOTSTRAP TOPIC DIRECTORY FORMAT JARS

Drains the topic into DIRECTORY/out with the source FORMAT, and prints the versions and a count as JSON.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import pyspark

from tests.spark_kafkalog.session import start_session


def main(bootstrap: str, topic: str, directory: str, source: str, jars: str) -> None:
    options = {"spark.jars": jars} if jars else {}
    spark = start_session(Path(tempfile.mkdtemp(dir=directory)), options)
    kafka = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    count = spark.read.format(source).options(**kafka).load().count()
    frame = spark.readStream.format(source).options(**kafka, maxOffsetsPerTrigger="40").load()
    frame = frame.selectExpr("partition", "offset", "value", "timestamp", "timestampType", "topic", "key")
    writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{directory}/out")
    query.awaitTermination()
    batches = len(query.recentProgress)
    print(json.dumps({"pyspark": pyspark.__version__, "batch": count, "batches": batches}), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
