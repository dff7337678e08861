"""Tests of `df.writeStream.format("kafkalog")` in Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.sink.conftest import Writes
from tests.spark_kafkalog.sink.draining import DEADLINE_S, Query
from tests.spark_kafkalog.sink.support import consume
from tests.spark_kafkalog.topics import Topics, numbers


def test_topic_to_topic(writes: Writes, reads: Reads, topics: Topics, tmp_path: Path) -> None:
    first, second = topics.create("first", 3), topics.create("second", 2)
    query = Query(writes, tmp_path, topic=second)
    frame = reads.stream(subscribe=first, startingOffsets="earliest", maxOffsetsPerTrigger=40, includeHeaders=True)
    for start in (0, 100, 200):
        some = numbers(100, start)
        topics.produce(first, [{"key": each, "value": each, "headers": [("n", each)]} for each in some])
        query.drain(frame.select("key", "value", "headers"))
        found = consume(writes.bootstrap, second)
        assert sorted(int(each.value or b"") for each in found) == list(range(start + 100))
    assert all(each.key == each.value and each.headers == [("n", each.value)] for each in found)


def test_topics_in_a_column(writes: Writes, reads: Reads, topics: Topics, tmp_path: Path) -> None:
    first, even, odd = topics.create("first"), topics.create("even"), topics.create("odd")
    topics.produce(first, numbers(50))
    frame = reads.stream(subscribe=first, startingOffsets="earliest").selectExpr(
        f"if(cast(cast(value AS STRING) AS INT) % 2 = 0, '{even}', '{odd}') AS topic", "value"
    )
    Query(writes, tmp_path).drain(frame)
    assert [each.value for each in consume(writes.bootstrap, even)] == numbers(50)[::2]
    assert [each.value for each in consume(writes.bootstrap, odd)] == numbers(50)[1::2]


def test_output_modes(writes: Writes, reads: Reads, topics: Topics, tmp_path: Path) -> None:
    first, second = topics.create("first"), topics.create("second")
    topics.produce(first, numbers(5))
    frame = reads.stream(subscribe=first, startingOffsets="earliest", maxOffsetsPerTrigger=3)
    counts = frame.groupBy("value").count().selectExpr("value")
    # Spark itself refuses it for every sink of this API; the documentation shows the way round.
    with pytest.raises(StreamingQueryException, match="does not support Update mode"):
        Query(writes, tmp_path / "update", topic=second).drain(counts, "update")
    assert consume(writes.bootstrap, second) == []
    Query(writes, tmp_path / "complete", topic=second).drain(counts, "complete")
    written = [each.value or b"" for each in consume(writes.bootstrap, second)]
    assert (sorted(written[:3]), sorted(written[3:])) == (numbers(3), numbers(5)), "each micro-batch adds all rows"


@pytest.mark.exhaustive
def test_update_mode_by_foreach_batch(writes: Writes, reads: Reads, topics: Topics, tmp_path: Path) -> None:
    first, second = topics.create("first"), topics.create("second")
    frame = reads.stream(subscribe=first, startingOffsets="earliest")
    counts = frame.groupBy("value").count().selectExpr("value AS key", "cast(count AS STRING) AS value")

    def write(batch: DataFrame, _: int) -> None:
        writes.batch(batch, topic=second)

    for expected in (1, 2):
        topics.produce(first, [b"a"] * expected + [b"b"] * (2 - expected))
        writer = counts.writeStream.outputMode("update").foreachBatch(write).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(tmp_path)).start()
        assert query.awaitTermination(DEADLINE_S)
    found = [(each.key, each.value) for each in consume(writes.bootstrap, second)]
    assert sorted(found) == [(b"a", b"1"), (b"a", b"3"), (b"b", b"1")]


def test_a_failed_batch_is_written_again(writes: Writes, reads: Reads, topics: Topics, tmp_path: Path) -> None:
    """At least once: what a failed attempt has written stays, and the repetition writes all of it."""
    first, second = topics.create("first"), topics.create("second")
    topics.produce(first, numbers(20))
    frame = reads.stream(subscribe=first, startingOffsets="earliest", includeHeaders=True)
    spoilt = frame.selectExpr("value", "if(value = cast('19' AS BINARY), 5, 0) AS partition")
    with pytest.raises(StreamingQueryException, match="has no partition 5, its last is 0"):
        Query(writes, tmp_path, topic=second).drain(spoilt)
    Query(writes, tmp_path, topic=second).drain(frame.select("value"))
    values = {each.value for each in consume(writes.bootstrap, second)}
    assert values == set(numbers(20))


def test_wrong_columns(spark: SparkSession, writes: Writes, tmp_path: Path) -> None:
    frame = spark.readStream.format("rate").load()
    with pytest.raises(StreamingQueryException, match="value attribute unsupported type bigint"):
        Query(writes, tmp_path, topic="t").drain(frame.select("value"))
