"""Tests of the columns that the sink accepts, and of the errors for others."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.sink.sink_columns import SinkColumns
from spark_kafkalog.source import KafkalogDataSource
from tests.spark_kafkalog.sink.support import HEADERS, columns


def test_all_columns_in_any_order() -> None:
    schema = columns("partition", "value", other=LongType(), headers=HEADERS, topic=StringType(), key=StringType())
    assert SinkColumns.of(schema, None) == SinkColumns(value=1, key=5, topic=4, partition=0, headers=3)


def test_the_option_overrides_the_column() -> None:
    assert SinkColumns.of(columns("value", "topic"), "t") == SinkColumns(value=0)
    # As in Spark, where the column is not even looked at then.
    assert SinkColumns.of(columns("value", topic=LongType()), "t") == SinkColumns(value=0)


def test_headers_that_cannot_be_null() -> None:
    pairs = [StructField("key", StringType(), nullable=False), StructField("value", BinaryType())]
    kind = ArrayType(StructType(pairs), containsNull=False)
    assert SinkColumns.of(columns("value", headers=kind), "t").headers == 1


@pytest.mark.parametrize(
    ("others", "message"),
    [
        ({}, "Required attribute 'value' not found"),
        ({"Value": BinaryType()}, "Required attribute 'value' not found"),
        ({"value": LongType()}, r"value attribute unsupported type bigint\. value must be a\(n\) string or binary"),
        ({"value": StringType(), "key": IntegerType()}, r"key attribute unsupported type int\. key must be"),
        ({"value": StringType(), "key": NullType()}, r"key attribute unsupported type void\. key must be"),
        (
            {"value": StringType(), "partition": LongType()},
            r"partition attribute unsupported type bigint\. partition must be a\(n\) int$",
        ),
        (
            {"value": StringType(), "headers": MapType(StringType(), BinaryType())},
            (
                r"headers attribute unsupported type map<string,binary>\. "
                r"headers must be a\(n\) array<struct<key:string,value:binary>>"
            ),
        ),
    ],
)
def test_what_is_refused(others: dict[str, DataType], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        SinkColumns.of(columns(**others), "t")


def test_no_topic() -> None:
    with pytest.raises(OptionsError, match="topic option required when no 'topic' attribute is present"):
        SinkColumns.of(columns("value"), None)
    with pytest.raises(OptionsError, match=r"topic attribute unsupported type binary\. topic must be a\(n\) string"):
        SinkColumns.of(columns("value", topic=BinaryType()), None)


@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
def test_writers_check_before_anything_is_written(kind: str) -> None:
    source: Any = KafkalogDataSource({"kafka.bootstrap.servers": "localhost:1", "topic": "t"})
    make = getattr(source, kind)
    make(columns("value"), False)
    with pytest.raises(OptionsError, match="Required attribute 'value' not found"):
        make(columns("key"), False)


def test_a_batch_does_not_replace_what_is_in_the_topic() -> None:
    source = KafkalogDataSource({"kafka.bootstrap.servers": "localhost:1", "topic": "t"})
    with pytest.raises(OptionsError, match="Overwrite not allowed"):
        source.writer(columns("value"), True)
