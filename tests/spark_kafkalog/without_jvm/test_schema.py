"""Tests of the columns, and of the schema that chooses among them."""

from __future__ import annotations

import pytest
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from spark_kafkalog.columns import COLUMNS, columns_of, source_schema
from spark_kafkalog.options.parsing import OptionsError


def test_schema_is_that_of_sparks_source() -> None:
    assert source_schema(False).simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )
    assert source_schema(True)["headers"].dataType.simpleString() == "array<struct<key:string,value:binary>>"
    assert all(column.nullable for column in source_schema(True))


def test_chosen_columns_keep_their_order() -> None:
    schema = StructType([StructField("value", BinaryType()), StructField("offset", LongType())])
    assert columns_of(schema) == ("value", "offset")
    assert columns_of(source_schema(True)) == tuple(COLUMNS)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([StructField("payload", BinaryType())], "no column 'payload'; its columns are key BINARY"),
        ([StructField("Value", BinaryType())], "no column 'Value'; did you mean 'value'"),
        ([StructField("value", StringType())], "column 'value' is BINARY, not STRING"),
        ([StructField("value", BinaryType(), nullable=False)], "cannot be NOT NULL"),
        ([StructField("value", BinaryType()), StructField("value", BinaryType())], "named twice"),
        ([], "at least one column"),
    ],
)
def test_what_a_schema_cannot_be(columns: list[StructField], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        columns_of(StructType(columns))
