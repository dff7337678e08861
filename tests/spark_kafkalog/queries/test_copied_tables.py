"""Tests of rows that go from one catalog table, or from a frame, to another table: which topic has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.topics import Topics, numbers, values_of

SOURCE, TARGET = "copied_source", "copied_target"


@pytest.fixture
def target(spark: SparkSession, topics: Topics) -> Iterator[str]:
    """Return the topic of the table `TARGET`, which is empty. The topic of the table `SOURCE` has three records."""
    for table in (SOURCE, TARGET):
        topic = topics.create(table.replace("_", "-"))
        options = {"kafka.bootstrap.servers": topics.bootstrap, "subscribe": topic, "topic": topic}
        listed = ", ".join(f"`{name}` '{value}'" for name, value in options.items())
        spark.sql(f"CREATE TABLE {table} USING kafkalog OPTIONS ({listed}, startingOffsets 'earliest')")
        if table == SOURCE:
            topics.produce(topic, numbers(3))
    yield topic
    for table in (SOURCE, TARGET):
        spark.sql(f"DROP TABLE {table}")


def counts(spark: SparkSession) -> tuple[int, int]:
    return spark.table(SOURCE).count(), spark.table(TARGET).count()


def test_rows_go_to_the_table_that_is_written_to(reads: Reads, target: str) -> None:
    spark = reads.spark
    spark.sql(f"INSERT INTO {TARGET} SELECT * FROM {SOURCE}")
    assert counts(spark) == (3, 3)
    spark.table(SOURCE).where("offset = 1").writeTo(TARGET).append()
    spark.sql(f"INSERT INTO {TARGET} (value, key) SELECT value, key FROM {SOURCE} WHERE offset = 2")
    # A frame with the table's own columns carries no options.
    topic = spark.table(SOURCE).first().topic  # type: ignore[union-attr]
    reads.batch(subscribe=topic).where("offset = 0").writeTo(TARGET).append()
    assert counts(spark) == (3, 6)
    assert values_of(reads.batch(subscribe=target).collect()) == [*numbers(3), b"1", b"2", b"0"]


def test_rows_that_go_back_to_their_own_table_are_refused(spark: SparkSession, target: str) -> None:
    with pytest.raises(PySparkException, match="Select the columns to write"):
        spark.sql(f"INSERT INTO {SOURCE} SELECT * FROM {SOURCE}")
    assert counts(spark) == (3, 0)


def test_a_stream_gives_servers_and_topic_itself(reads: Reads, target: str, tmp_path: Path) -> None:
    def write(frame: DataFrame, name: str, **options: str) -> None:
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / name)).options(**options)
        query = writer.trigger(availableNow=True).toTable(TARGET)
        query.awaitTermination(240)

    stream = reads.spark.readStream.table(SOURCE)
    with pytest.raises(StreamingQueryException, match="A stream has none of the options of the table"):
        write(stream, "refused")
    assert counts(reads.spark) == (3, 0)
    write(stream, "given", **{"kafka.bootstrap.servers": reads.bootstrap, "topic": target})
    assert counts(reads.spark) == (3, 3)
