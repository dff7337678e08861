"""The program of the test of Spark Connect: a local server, and a client with only a connection to it.

    python -m tests.spark_kafkalog.drill.connect BOOTSTRAP TOPIC DIRECTORY

Prints what it found as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_kafkalog import progress, redaction
from tests.spark_kafkalog.session import session_options
from tests.support.waiting import wait_until


def main(bootstrap: str, topic: str, directory: str) -> None:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.remote("local[2]")
    for key, value in session_options(Path(tempfile.mkdtemp(dir=directory))).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    found: dict[str, object] = {"session": type(spark).__module__}
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}

    frame = spark.read.format("kafkalog").options(**options).load()
    found["columns"] = frame.columns
    found["batch"] = sorted(bytes(row.value).decode() for row in frame.select("value").collect())
    chosen = spark.read.format("kafkalog").schema("offset BIGINT").options(**options).load()
    found["chosen"] = [chosen.columns, chosen.count()]

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    pushed = spark.read.format("kafkalog").options(**options, filterPushdown="true").load()
    found["pushed"] = pushed.where("partition = 0 AND offset < 3").count()
    spark.conf.unset("spark.sql.python.filterPushdown.enabled")

    redaction.hide_secrets(spark)
    found["redacted"] = spark.conf.get(redaction.KEY)
    watched = progress.watch(spark, lambda behind: None)
    stream = spark.readStream.format("kafkalog").options(**options, maxOffsetsPerTrigger="4").load()
    writer = stream.writeStream.format("parquet").option("checkpointLocation", f"{directory}/checkpoint")
    query = writer.trigger(availableNow=True).start(f"{directory}/out")
    found["terminated"] = query.awaitTermination(60)
    last = query.lastProgress
    assert last is not None
    found["end"] = last["sources"][0]["endOffset"]
    found["behind"] = [each.metrics() for each in progress.behind_latest(last)]
    wait_until(lambda: watched.last(query) != [], "the progress at the listener")
    found["stream"] = sorted(bytes(row.value).decode() for row in spark.read.parquet(f"{directory}/out").collect())

    try:
        spark.read.format("kafkalog").option("kafka.bootstrap.servers", bootstrap).load().collect()
    except PySparkException as error:
        found["error"] = str(error)
    print(json.dumps(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
