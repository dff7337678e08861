"""Tests of schemas as text."""

from __future__ import annotations

import pytest
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from spark_kafkalog.values.ddl import DdlError, parse_ddl

GOOD = [
    "id BIGINT",
    "id bigint, name string",
    "a: INT, b: STRING NOT NULL, c DATE COMMENT 'a, b'",
    "`a b` INT, `c``d` STRING",
    "a ARRAY<ARRAY<INT>>, m MAP<STRING, ARRAY<STRUCT<x: DECIMAL(10, 2), y: DEC>>>",
    "s STRUCT<a: INT, b: STRUCT<c: BOOLEAN>>, t TIMESTAMP, n TIMESTAMP_NTZ, l TIMESTAMP_LTZ",
    "a TINYINT, b BYTE, c SMALLINT, d SHORT, e INTEGER, f LONG, g REAL, h FLOAT, i DOUBLE, j NUMERIC(3), k BINARY",
    "STRUCT<id: BIGINT, name: STRING>",
    "struct INT, array STRING, date DATE",
    "e STRUCT<>",
]


def test_a_schema() -> None:
    expected = StructType(
        [StructField("id", LongType()), StructField("s", StructType([StructField("x", IntegerType())]))]
    )
    assert parse_ddl("id BIGINT, s STRUCT<x INT>") == expected


@pytest.mark.spark
@pytest.mark.parametrize("text", GOOD)
def test_as_spark_reads_it(spark: object, text: str) -> None:
    """Apart from NOT NULL and comments, which say nothing here."""
    theirs = StructType.fromDDL(text)
    assert parse_ddl(text).simpleString() == theirs.simpleString()


@pytest.mark.parametrize(
    "text",
    ["", "id", "id BIGINT,", "id BIGINT name STRING", "id NUMBER", "a ARRAY<INT", "a ARRAY<INT>>", "a DECIMAL(39)",
     "a DECIMAL(5,6)", "a DECIMAL(x)", "a MAP<STRING>", "a INT, a INT", "a INT COMMENT", "'a' INT", "a STRUCT<b>",
     "a INT NOT", "<", "a " + "ARRAY<" * 100 + "INT" + ">" * 100],
)  # fmt: skip
def test_what_is_no_schema(text: str) -> None:
    with pytest.raises(DdlError):
        parse_ddl(text)
