"""An application as users submit it: reads a topic by a batch and a stream, and writes one.

Arguments: bootstrap server, topic, target topic, directory for output. With `--register` it registers the source.
Prints what it has done as JSON. It imports PySpark alone, since the driver may have no kafkalog.
"""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession


def main() -> None:
    words = [word for word in sys.argv[1:] if not word.startswith("--")]
    bootstrap, topic, target, directory = words[0], words[1], words[2], Path(words[3])
    spark = SparkSession.builder.appName("application").getOrCreate()
    if "--register" in sys.argv:
        from pyspark_kafkalog import DefaultSource

        spark.dataSource.register(DefaultSource)
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    total = "count(*)", "sum(CAST(CAST(value AS STRING) AS BIGINT))"
    batch = spark.read.format("kafkalog").options(**options).load().selectExpr(*total).collect()[0]
    # Executors read all micro-batches, not the planner on the driver.
    stream = spark.readStream.format("kafkalog").options(**options, smallBatchBytes="0").load()
    out, checkpoint = str(directory / "parquet"), str(directory / "checkpoint")
    writer = stream.select("value").writeStream.format("parquet").option("checkpointLocation", checkpoint)
    assert writer.trigger(availableNow=True).start(out).awaitTermination(240)
    streamed = spark.read.parquet(out).selectExpr(*total).collect()[0]
    rows = spark.range(100, numPartitions=2).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("kafkalog").options(**{"kafka.bootstrap.servers": bootstrap, "topic": target}).mode(
        "append"
    ).save()
    print(json.dumps({"batch": [*batch], "stream": [*streamed], "python": sys.executable}))


if __name__ == "__main__":
    main()
