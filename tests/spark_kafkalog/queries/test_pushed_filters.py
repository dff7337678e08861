"""Tests of `filterPushdown` in Spark: each use of a frame, view or table has the rows that its own filters leave."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.topics import T0_MS, Topics, numbers, values_of

SETTING = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def topic(spark: SparkSession, topics: Topics) -> Iterator[str]:
    """Return a topic with two partitions of 50 records each, while Spark pushes filters down."""
    name = topics.create("spark-pushed", 2)
    for partition in range(2):
        topics.produce(name, [{"value": b"%d" % n, "timestamp": T0_MS + n} for n in range(50)], partition)
    spark.conf.set(SETTING, "true")
    yield name
    spark.conf.unset(SETTING)


def test_filters_leave_the_rows_that_they_should(reads: Reads, topic: str) -> None:
    frame = reads.batch(subscribe=topic, filterPushdown=True)
    assert values_of(frame.where("partition = 1 AND offset >= 10 AND offset < 20").collect()) == numbers(10, 10)
    late = F.timestamp_millis(F.lit(T0_MS + 45))
    by_time = reads.batch(subscribe=topic, filterPushdown=True).where(F.col("timestamp") > late)
    assert values_of(by_time.collect()) == numbers(4, 46) * 2


def test_no_setting_of_spark_is_needed(reads: Reads, topic: str) -> None:
    reads.spark.conf.unset(SETTING)
    assert reads.batch(subscribe=topic, filterPushdown=True).where("offset < 3").count() == 6


def test_a_frame_is_whole_after_a_part_of_it_was_read(reads: Reads, topic: str) -> None:
    frame = reads.batch(subscribe=topic, filterPushdown=True)
    assert frame.where("partition = 0").count() == 50
    assert frame.count() == 100


def test_two_parts_of_a_frame(reads: Reads, topic: str) -> None:
    frame = reads.batch(subscribe=topic, filterPushdown=True)
    both = frame.where("partition = 0").union(frame.where("partition = 1"))
    assert sorted(map(tuple, both.groupBy("partition").count().collect())) == [(0, 50), (1, 50)]


def test_two_parts_of_a_view(reads: Reads, topic: str) -> None:
    reads.batch(subscribe=topic, filterPushdown=True).createOrReplaceTempView("pushed_view")
    try:
        few, many = ("(SELECT count(*) FROM pushed_view WHERE offset < 10)", "(SELECT count(*) FROM pushed_view)")
        assert tuple(reads.spark.sql(f"SELECT {few} AS few, {many} AS many").collect()[0]) == (20, 100)
    finally:
        reads.spark.catalog.dropTempView("pushed_view")


def test_two_parts_of_a_table(reads: Reads, topic: str) -> None:
    options = f"`kafka.bootstrap.servers` '{reads.bootstrap}', subscribe '{topic}', filterPushdown 'true'"
    reads.spark.sql(f"CREATE TABLE pushed_table USING kafkalog OPTIONS ({options})")
    try:
        parts = "UNION ALL ".join(f"SELECT * FROM pushed_table WHERE partition = {n} " for n in range(2))
        found = reads.spark.sql(f"SELECT partition, count(*) FROM ({parts}) GROUP BY partition").collect()
        assert sorted(map(tuple, found)) == [(0, 50), (1, 50)]
    finally:
        reads.spark.sql("DROP TABLE pushed_table")


def test_a_filter_makes_spark_plan_anew(reads: Reads, topics: Topics, topic: str) -> None:
    """Without the setting, a frame has the records of its first action (`test_batch`)."""
    frame = reads.batch(subscribe=topic).where("offset >= 0")
    assert frame.count() == 100
    topics.produce(topic, numbers(3))
    assert frame.count() == 103
