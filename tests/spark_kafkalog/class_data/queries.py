"""Queries of each kind that tests run, in an application of Spark that loads the classes for the archive.

spark-submit … queries.py BOOTSTRAP TOPIC DIRECTORY
"""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f


def main(bootstrap: str, topic: str, directory: str) -> None:
    spark = SparkSession.builder.getOrCreate()
    options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    batch = spark.read.format("kafkalog").options(**options).load()
    values = batch.select("partition", "offset", "timestamp", f.col("value").cast("string").alias("value"))
    values.write.partitionBy("partition").parquet(f"{directory}/batch")
    again = spark.read.parquet(f"{directory}/batch")
    again.join(values, ["partition", "offset"]).groupBy("partition").agg(f.count("*"), f.max(values["value"])).collect()
    spark.sql("SELECT explode(sequence(1, 3)) AS id").orderBy("id").toPandas()
    values.select(f.to_json(f.struct("offset")).alias("value")).write.format("kafkalog").options(
        **{"kafka.bootstrap.servers": bootstrap, "topic": topic}
    ).mode("append").save()

    def process(frame: DataFrame, number: int) -> None:
        frame.write.mode("overwrite").json(f"{directory}/each/{number}")

    stream = spark.readStream.format("kafkalog").options(**options).load().selectExpr("CAST(value AS STRING) AS value")
    counted = stream.groupBy("value").count()
    for name, writer in (
        ("rows", stream.writeStream.format("parquet").option("path", f"{directory}/rows")),
        ("each", stream.writeStream.foreachBatch(process)),
        ("counted", counted.writeStream.format("memory").queryName("counted").outputMode("complete")),
    ):
        writer = writer.option("checkpointLocation", f"{directory}/checkpoints/{name}").trigger(availableNow=True)
        writer.start().awaitTermination()
    spark.sparkContext.parallelize(range(2), 2).map(lambda number: number + 1).collect()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
