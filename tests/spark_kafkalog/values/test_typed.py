"""Test which schemas of the user fit typed values."""

from __future__ import annotations

import json

import pytest
from pyspark.sql.types import ArrayType, LongType, MapType, StringType, StructField, StructType

from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.values.typed import Typed
from spark_kafkalog.values.value_options import ValueOptions
from spark_kafkalog.values.value_types import plan

AVRO = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}
COMMENT = {"comment": "of a column"}


def typed(**options: str) -> Typed:
    parsed = ValueOptions.parse(options)
    assert parsed is not None
    return plan(parsed, None)


def with_value(*fields: StructField) -> StructType:
    return StructType([StructField("value", StructType(list(fields)), True, COMMENT)])


@pytest.mark.parametrize(
    "options",
    [
        {"valueFormat": "json"},
        {"valueFormat": "json", "valueSchema": "id BIGINT"},
        {"valueFormat": "json", "valueSchema": "id BIGINT COMMENT 'of another'"},
        {"valueFormat": "avro", "valueSchema": json.dumps(AVRO)},
    ],
)
def test_comments_do_not_matter(options: dict[str, str]) -> None:
    found = typed(**options).chosen(with_value(StructField("id", LongType(), True, COMMENT)))
    assert found.value is not None
    assert found.value.simpleString() == "struct<id:bigint>"


@pytest.mark.parametrize(
    "kind",
    [
        ArrayType(StringType(), containsNull=False),
        MapType(StringType(), StringType(), valueContainsNull=False),
        ArrayType(StructType([StructField("i", LongType(), nullable=False, metadata=COMMENT)])),
    ],
)
def test_not_null_within_is_refused(kind: ArrayType | MapType) -> None:
    with pytest.raises(OptionsError, match="fields of column 'value' cannot be NOT NULL"):
        typed(valueFormat="json").chosen(with_value(StructField("a", kind, True, COMMENT)))
