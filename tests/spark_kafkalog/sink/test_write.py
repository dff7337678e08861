"""Tests of `df.write.format("kafkalog")` in Spark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from tests.spark_kafkalog.sink.conftest import Writes
from tests.spark_kafkalog.sink.support import consume
from tests.spark_kafkalog.topics import Topics
from tests.support.kafkalog_broker import KafkalogBroker

HEADERS = "array(named_struct('key', 'id', 'value', {}))"


def frame_of(spark: SparkSession, *columns: str, rows: int = 1000) -> DataFrame:
    """Rows in two partitions of Spark's; columns are SQL over `id`."""
    return spark.range(0, rows, 1, 2).selectExpr(*columns)


def test_all_columns(spark: SparkSession, writes: Writes, topics: Topics) -> None:
    one, other = topics.create("one", 3), topics.create("other", 2)
    frame = frame_of(
        spark,
        f"if(id % 2 = 0, '{one}', '{other}') AS topic",
        "if(id % 3 = 0, NULL, cast(id AS STRING)) AS key",
        "if(id % 5 = 0, NULL, cast(cast(id AS STRING) AS BINARY)) AS value",
        "if(id % 7 = 0, 1, NULL) AS partition",
        f"if(id % 11 = 0, NULL, {HEADERS.format('cast(cast(id AS STRING) AS BINARY)')}) AS headers",
        "id AS ignored",
    )
    writes.batch(frame)
    for topic, rest in ((one, 0), (other, 1)):
        seen = set()
        for record in consume(writes.bootstrap, topic):
            number = int(record.headers[0][1] or b"") if record.headers else int(record.value or record.key or b"-1")
            if number == -1:
                # Divisible by 3, 5 and 11: only the partition is left to look at, where it was said.
                continue
            seen.add(number)
            assert number % 2 == rest
            assert record.key == (None if number % 3 == 0 else b"%d" % number)
            assert record.value == (None if number % 5 == 0 else b"%d" % number)
            assert record.headers == ([] if number % 11 == 0 else [("id", b"%d" % number)])
            assert number % 7 or record.partition == 1
        assert seen == {n for n in range(rest, 1000, 2) if n % 165}
        assert len(consume(writes.bootstrap, topic)) == 500


def test_what_is_written_is_read(spark: SparkSession, writes: Writes, topics: Topics) -> None:
    """The source's rows are the sink's: a topic copied is the same topic."""
    first, second = topics.create("first", 2), topics.create("second", 2)
    topics.produce(first, [{"key": b"%d" % n, "value": b"v" * n, "headers": [("h", b"%d" % n)]} for n in range(300)])
    reader = spark.read.format("kafkalog").option("kafka.bootstrap.servers", writes.bootstrap)
    frame = reader.options(subscribe=first, includeHeaders="true").load()
    writes.batch(frame.select("key", "value", "partition", "headers"), topic=second, includeHeaders="true")
    copied = consume(writes.bootstrap, second)
    assert [record[2:5] for record in copied] == [record[2:5] for record in consume(writes.bootstrap, first)]
    # All columns, as the source has them: its topic column is overridden.
    writes.batch(frame, topic=second, **{"kafka.compression.type": "lz4"})
    assert len(consume(writes.bootstrap, second)) == 600


def test_empty_and_large(spark: SparkSession, writes: Writes, topics: Topics) -> None:
    topic = topics.create("large", 4)
    frame = frame_of(spark, "cast(id AS STRING) AS value", rows=250_000)
    writes.batch(frame.where("value < ''"), topic=topic)
    assert consume(writes.bootstrap, topic) == []
    writes.batch(frame, topic=topic)
    assert sorted(int(each.value or b"") for each in consume(writes.bootstrap, topic)) == list(range(250_000))


def test_large_var_types(spark: SparkSession, writes: Writes, topics: Topics) -> None:
    topic = topics.create("large-types", 2)
    frame = frame_of(
        spark,
        "cast(id AS STRING) AS key",
        "cast(id AS STRING) AS value",
        "array(named_struct('key', 'h', 'value', cast('x' AS BINARY))) AS headers",
    )
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        writes.batch(frame, topic=topic)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    found = consume(writes.bootstrap, topic)
    assert sorted(int(each.value or b"") for each in found) == list(range(1000))
    assert all(each.key == each.value and each.headers == [("h", b"x")] for each in found)


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["'x' AS key"], {"topic": "t"}, "Required attribute 'value' not found"),
        (["id AS value"], {"topic": "t"}, "value attribute unsupported type bigint"),
        (["'x' AS value"], {}, "topic option required when no 'topic' attribute is present"),
        (["'x' AS value"], {"topic": "t", "kafka.acks": "7"}, "kafka.acks=7"),
        (["'x' AS value"], {"topic": "t", "kafka.key.serializer": "x"}, "keys are serialized with ByteArraySerializer"),
        (["'x' AS value"], {"topic": "t", "kafka.transactional.id": "x", "kafka.acks": "1"}, "needs acks=all"),
        (["'x' AS value", "cast(NULL AS STRING) AS topic"], {}, "null topic present in the data"),
    ],
)
def test_errors(spark: SparkSession, writes: Writes, columns: list[str], options: dict[str, Any], message: str) -> None:
    with pytest.raises(PySparkException) as caught:
        writes.batch(frame_of(spark, *columns, rows=2), **options)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("overwrite", "Save mode Overwrite not allowed for kafkalog"),
        ("ignore", 'cannot be written in the "Ignore" mode'),
        # Spark itself refuses its own default mode for every source of this API.
        ("errorifexists", 'cannot be written in the "ErrorIfExists" mode'),
    ],
)
def test_save_modes(spark: SparkSession, writes: Writes, topics: Topics, mode: str, message: str) -> None:
    topic = topics.create("modes")
    with pytest.raises(PySparkException) as caught:
        writes.batch(frame_of(spark, "'x' AS value"), mode, topic=topic)
    assert message in str(caught.value)
    assert consume(writes.bootstrap, topic) == []


def test_what_the_broker_refuses(
    spark: SparkSession, writes: Writes, topics: Topics, start_broker: Callable[..., KafkalogBroker]
) -> None:
    topic = topics.create("refuses", config={"max.message.bytes": "1000"})
    with pytest.raises(PySparkException, match="MessageTooLargeError"):
        writes.batch(frame_of(spark, "repeat('x', 2000) AS value", rows=2), topic=topic)
    strict = Writes(spark, start_broker({"auto.create.topics.enable": "false"}).bootstrap)
    with pytest.raises(PySparkException, match="topic missing does not exist"):
        strict.batch(frame_of(spark, "'x' AS value", rows=2), topic="missing")
