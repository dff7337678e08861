"""Tests of log directories in Spark itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark_kafkalog.offline.written import batch, write_segment

pytestmark = pytest.mark.spark


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for topic in ("t", "u"):
        for base in range(0, 1000, 100):
            write_segment(tmp_path / f"{topic}-0", [batch(n, 10) for n in range(base, base + 100, 10)])
    return tmp_path


def test_load(spark: SparkSession, tree: Path) -> None:
    frame = spark.read.format("kafkalog").load(str(tree))
    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    counted = frame.groupBy("topic").agg(F.count("*").alias("rows"), F.max("offset").alias("last")).collect()
    assert sorted((row.topic, row.rows, row["last"]) for row in counted) == [("t", 1000, 999), ("u", 1000, 999)]
    one = spark.read.format("kafkalog").option("path", f"{tree}/t-0").schema("offset BIGINT").load()
    assert [row.offset for row in one.orderBy("offset").collect()] == list(range(1000))
    two = spark.read.format("kafkalog").load([f"{tree}/t-0", f"{tree}/u-0"])
    assert two.count() == 2000
    parallel = spark.read.format("kafkalog").option("minPartitions", 7).load(str(tree))
    assert parallel.select(F.spark_partition_id()).distinct().count() >= 7


def test_sql(spark: SparkSession, tree: Path) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW logs USING kafkalog OPTIONS (path '{tree}', subscribe 't')")
    assert spark.sql("SELECT count(*), max(offset) FROM logs WHERE topic = 't'").collect()[0][:] == (1000, 999)


def test_errors_reach_the_user(spark: SparkSession, tree: Path) -> None:
    with pytest.raises(PySparkException, match="are both set: a query reads either"):
        spark.read.format("kafkalog").option("kafka.bootstrap.servers", "x:1").load(str(tree))
    with pytest.raises(PySparkException, match=r"path: .*/nowhere does not exist"):
        spark.read.format("kafkalog").load(f"{tree}/nowhere").collect()
    (path,) = tree.glob("t-0/*0500.log")
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(PySparkException, match=f"{path} is damaged at position 0"):
        spark.read.format("kafkalog").load(str(tree)).collect()
    assert spark.read.format("kafkalog").option("failOnDataLoss", False).load(str(tree)).count() == 1990


def test_no_stream(spark: SparkSession, tree: Path, tmp_path: Path) -> None:
    frame = spark.readStream.format("kafkalog").load(str(tree))
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        with pytest.raises(PySparkException, match="log directories are read in batch queries only"):
            query.awaitTermination(120)
    finally:
        query.stop()
