"""Test Avro records of other writers' schemas: the reader's logical types count, and its defaults."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from spark_kafkalog.compat import avro
from spark_kafkalog.values.avro.from_avro import AvroDecoder, spark_type
from tests.spark_kafkalog.values.avro.avro_values import by_ids, decimal_of, written

MILLIS_2020, DAYS_2020 = 1_577_836_800_000, 18_262
INT_DATE = {"type": "int", "logicalType": "date"}
TIME_MILLIS = {"type": "int", "logicalType": "time-millis"}
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
MICROS = {"type": "long", "logicalType": "timestamp-micros"}
LOCAL_MILLIS = {"type": "long", "logicalType": "local-timestamp-millis"}
UUID = {"type": "string", "logicalType": "uuid"}


def record(kind: Any, **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, **more}]}


def numbers(kind: pa.DataType) -> pa.DataType:
    """The type of an array's values with dates and timestamps as numbers, for years that Python lacks."""
    if pa.types.is_date(kind):
        return pa.int32()
    if pa.types.is_timestamp(kind):
        return pa.int64()
    return pa.list_(numbers(kind.value_type)) if pa.types.is_list(kind) else kind


def resolved(writer: dict[str, Any], reader: dict[str, Any], values: list[bytes]) -> list[Any]:
    """Return the field f of each value, as the reader's schema sees it; dates and timestamps are numbers."""
    lookup = by_ids(writer)
    decoder = AvroDecoder(json.dumps(reader), framed=True, lookup=lookup)
    found, bad = decoder.decode(pa.array([b"\0\0\0\0\1" + value for value in values], pa.binary()))
    found.validate(full=True)
    field = found.field("f")
    rows = field.cast(numbers(field.type)).to_pylist(maps_as_pydicts="strict")
    return ["corrupt" if each else row for row, each in zip(rows, bad.to_pylist(), strict=True)]


@pytest.mark.parametrize(
    ("writer", "reader", "datum", "expected"),
    [
        ("long", MILLIS, MILLIS_2020, MILLIS_2020 * 1000),
        ("long", LOCAL_MILLIS, MILLIS_2020, MILLIS_2020 * 1000),
        ("long", MICROS, MILLIS_2020, MILLIS_2020),
        ("long", ["null", MILLIS], MILLIS_2020, MILLIS_2020 * 1000),
        (["null", "long"], ["null", MILLIS], None, None),
        ("int", MILLIS, 1, 1000),
        ("int", INT_DATE, DAYS_2020, DAYS_2020),
        (MILLIS, "long", MILLIS_2020, MILLIS_2020),
        (MICROS, "double", MILLIS_2020, float(MILLIS_2020)),
        (MILLIS, MICROS, MILLIS_2020, MILLIS_2020),
        (INT_DATE, "long", DAYS_2020, DAYS_2020),
        (TIME_MILLIS, "long", 5, 5),
        ({"type": "array", "items": "long"}, {"type": "array", "items": MILLIS}, [1, 2], [1000, 2000]),
        (UUID, "string", "no UUID", "no UUID"),
        ("string", UUID, "ABC", "ABC"),
        (decimal_of(10, 2), "bytes", b"\x01\x00", b"\x01\x00"),
        (decimal_of(10, 2), "string", b"text", "text"),
        (decimal_of(10, 2, "fixed"), {"type": "fixed", "name": "Fixed", "size": 20}, b"x" * 20, b"x" * 20),
        ("bytes", decimal_of(10, 2), b"\x01\x00", Decimal("2.56")),
        ("string", decimal_of(10, 2), "\x01", Decimal("0.01")),
    ],
)
def test_the_readers_logical_type_counts(writer: Any, reader: Any, datum: Any, expected: Any) -> None:
    """As in Spark and Avro's own readers, the writer's is nothing but the type that it annotates."""
    plain = json.loads(json.dumps(writer).replace("logicalType", "without"))
    value = written(record(plain), {"f": datum})
    assert resolved(record(writer), record(reader), [value, value]) == [expected] * 2


@pytest.mark.parametrize(
    ("kind", "default", "expected"),
    [
        (MILLIS, MILLIS_2020, MILLIS_2020 * 1000),
        ([MILLIS, "null"], MILLIS_2020, MILLIS_2020 * 1000),
        (INT_DATE, DAYS_2020, DAYS_2020),
        (decimal_of(10, 2), "\x01\x00", Decimal("2.56")),
        (["null", decimal_of(10, 2)], None, None),
        (decimal_of(10, 2, "fixed"), "\xff" * 20, Decimal("-0.01")),
        ("bytes", "\xff", b"\xff"),
        (UUID, "x", "x"),
        ({"type": "array", "items": "bytes"}, ["\xff"], [b"\xff"]),
        ({"type": "map", "values": decimal_of(10, 2)}, {"k": "\x01"}, {"k": Decimal("0.01")}),
        (
            {"type": "record", "name": "P", "fields": [{"name": "x", "type": "bytes", "default": "\xff"}]},
            {},
            {"x": b"\xff"},
        ),
    ],
)
def test_defaults_of_fields_that_older_records_lack(kind: Any, default: Any, expected: Any) -> None:
    writer = {"type": "record", "name": "R", "fields": [{"name": "i", "type": "int"}]}
    reader = record(kind, default=default)
    assert resolved(writer, reader, [b"\x02", b"\x04"]) == [expected] * 2


@pytest.mark.parametrize(
    ("kind", "number", "expected"),
    [
        (INT_DATE, 2_932_897, 2_932_897),
        (INT_DATE, -719_528, -719_528),
        (MICROS, 253_402_300_800_000_000, 253_402_300_800_000_000),
        (MILLIS, -62_167_219_200_000, -62_167_219_200_000_000),
        (MILLIS, (1 << 63) - 1, "corrupt"),
        (TIME_MILLIS, 86_400_000, 86_400_000),
    ],
)
def test_what_python_has_no_dates_for(kind: dict[str, Any], number: int, expected: Any) -> None:
    schema = record(kind)
    value, other = (written(record(kind["type"]), {"f": each}) for each in (number, 0))
    assert resolved(schema, schema, [other, value, other]) == [0, expected, 0]


def test_a_union_of_a_time_and_a_number() -> None:
    """Both are numbers in Spark."""
    schema = record(["null", TIME_MILLIS, "long"])
    plain = record(["null", "int", "long"])
    assert spark_type(json.dumps(schema)).simpleString() == "struct<f:bigint>"
    values = [written(plain, {"f": each}) for each in (5, 1 << 40, None)]
    assert resolved(schema, schema, values) == [5, 1 << 40, None]


def test_logical_types_are_properties_of_types_only() -> None:
    """A field of this name in a default is none."""
    inner = {"type": "record", "name": "P", "fields": [{"name": "logicalType", "type": "string"}]}
    writer = {"type": "record", "name": "R", "fields": [{"name": "i", "type": "int"}]}
    reader = record(inner, default={"logicalType": "decimal"})
    assert resolved(writer, reader, [b"\x02"]) == [{"logicalType": "decimal"}]


SUIT = {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}
HAND = {"type": "record", "name": "Hand", "fields": [{"name": "suit", "type": ["null", SUIT]}]}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (SUIT, [b"\x02", b"\x04", b"\x01", b"\x03", b"\x05"], "SPADES"),
        (["null", "int"], [b"\x02\x0e", b"\x04\x0e", b"\x01\x0e", b"\x03"], 7),
        (["null", SUIT], [b"\x02\x02", b"\x02\x01", b"\x01\x02"], "SPADES"),
        ({"type": "array", "items": ["null", "int"]}, [b"\x02\x02\x0e\0", b"\x02\x01\x0e\0"], [7]),
        ({"type": "map", "values": SUIT}, [b"\x02\x02k\x02\0", b"\x02\x02k\x01\0"], {"k": "SPADES"}),
        (HAND, [b"\x02\x02", b"\x02\x01", b"\x01\x02"], {"suit": "SPADES"}),
    ],
)
def test_no_branch_and_no_symbol_has_a_negative_number(kind: Any, values: list[bytes], expected: Any) -> None:
    """Such a number does not count from the end, as in Python."""
    schema = record(kind)
    assert resolved(schema, schema, values) == [expected, *["corrupt"] * (len(values) - 1)]


def test_a_negative_number_where_a_type_is_named_again() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "g", "type": HAND}, {"name": "f", "type": "Hand"}]}
    values = [b"\x02\x02\x02\x02", b"\x02\x02\x02\x01", b"\x02\x02\x01\x02"]
    assert resolved(schema, schema, values) == [{"suit": "SPADES"}, "corrupt", "corrupt"]


def test_a_negative_number_in_a_field_that_the_reader_leaves_out() -> None:
    fields = [{"name": "g", "type": ["null", "int"]}, {"name": "f", "type": "int"}]
    writer = {"type": "record", "name": "R", "fields": fields}
    assert resolved(writer, record("int"), [b"\x02\x02\x0e", b"\x01\x02\x0e"]) == [7, "corrupt"]


def test_negative_numbers_with_a_fastavro_whose_public_reader_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its reader in plain Python is used then."""
    monkeypatch.setattr(avro, "keeps_choices", lambda: False)
    schema = record(["null", SUIT])
    assert resolved(schema, schema, [b"\x02\x02", b"\x02\x01", b"\x01\x02"]) == ["SPADES", "corrupt", "corrupt"]


DOUBLES = {"type": "array", "items": "double"}
POINT = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "float"}, {"name": "y", "type": "boolean"}]}
OTHER_POINT = {"type": "record", "name": "P", "fields": [{"name": "z", "type": "int", "default": 0}]}
MANY = b"\x80\x80\x80\x80\x80\x80\x80\x80\x01"
"""The number 2**56."""


@pytest.mark.parametrize(
    ("writer", "item"),
    [
        (DOUBLES, b"\0" * 8),
        ({"type": "array", "items": "float"}, b"\0" * 4),
        ({"type": "array", "items": "boolean"}, b"\0"),
        ({"type": "array", "items": {"type": "fixed", "name": "F", "size": 3}}, b"abc"),
        ({"type": "array", "items": POINT}, b"\0" * 5),
        ({"type": "map", "values": "double"}, b"\x02k" + b"\0" * 8),
        ({"type": "map", "values": DOUBLES}, b"\x02k\x02" + b"\0" * 9),
        (["null", {"type": "array", "items": {"type": "array", "items": "double"}}], b"\x02" + b"\0" * 9),
    ],
)
def test_items_that_a_record_claims_and_lacks(writer: Any, item: bytes) -> None:
    """The reader leaves them out. To skip them must end where the record does."""
    begins = b"\x02" if isinstance(writer, list) else b""
    fields = [{"name": "g", "type": writer}, {"name": "f", "type": "int"}]
    own = {"type": "record", "name": "R", "fields": fields}
    values = [b"\x02" + item + b"\0\x0e", MANY + item, MANY + item * 3 + b"\0\x0e", b"\x04" + item * 2 + b"\0\x0e"]
    assert resolved(own, record("int"), [begins + each for each in values]) == [7, "corrupt", "corrupt", 7]


def test_items_of_which_the_reader_leaves_out_everything() -> None:
    """They are read, and all their bytes are skipped."""
    writer, reader = ({"type": "array", "items": each} for each in (POINT, OTHER_POINT))
    values = [b"\x02" + b"\0" * 5 + b"\0", MANY + b"\0" * 5]
    assert resolved(record(writer), record(reader), values) == [[{"z": 0}], "corrupt"]


@pytest.mark.parametrize(
    ("kind", "datum"),
    [
        ("double", 1.5),
        ("boolean", True),
        ("string", "text"),
        ({"type": "fixed", "name": "F", "size": 3}, b"abc"),
        (DOUBLES, [1.5]),
    ],
)
def test_a_record_that_ends_in_a_field_that_the_reader_leaves_out(kind: Any, datum: Any) -> None:
    writer = {"type": "record", "name": "R", "fields": [{"name": "f", "type": "int"}, {"name": "g", "type": kind}]}
    value = written(writer, {"f": 7, "g": datum})
    assert resolved(writer, record("int"), [value, value[:-1], value + b"\0"]) == [7, "corrupt", "corrupt"]
