"""Test Avro to structs without a registry: every type, damaged records, decimals, and what is refused."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_kafkalog.values.avro.avro_schema import AvroSchemaError, load_schema
from spark_kafkalog.values.avro.from_avro import AvroDecoder, spark_type
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema
from tests.spark_kafkalog.values.avro.avro_values import (
    DDL,
    EVERYTHING,
    LONG_DECIMAL,
    READ,
    SIMPLE,
    WRITTEN,
    by_ids,
    decimal_of,
    decode,
    written,
)


def test_every_type() -> None:
    text = json.dumps(EVERYTHING)
    assert spark_type(text).simpleString() == DDL
    assert decode(AvroDecoder(text, framed=False), [written(EVERYTHING, WRITTEN), None]) == [READ, None]


def test_what_is_no_record() -> None:
    good = written(SIMPLE, {"id": 7, "name": "x"})
    values = [good, b"", good[:-1], good + b"\0", b"\x00", b"\xff" * 20, b"\x02\x02\x80", good]
    row = {"id": 7, "name": "x"}
    expected = [row, *["corrupt"] * 6, row]
    assert decode(AvroDecoder(json.dumps(SIMPLE), framed=False), values) == expected


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=60), max_size=10), st.booleans())
def test_random_bytes_never_raise(values: list[bytes], framed: bool) -> None:
    decoder = AvroDecoder(json.dumps(EVERYTHING), framed=framed)
    for value, row in zip(values, decode(decoder, list(values)), strict=True):
        assert row == "corrupt" or (value and isinstance(row, dict))


@given(st.binary(max_size=40), st.integers(0, 200), st.integers(0, 7))
def test_damaged_records_never_raise(tail: bytes, at: int, bit: int) -> None:
    data = bytearray(written(EVERYTHING, WRITTEN))
    data[at % len(data)] ^= 1 << bit
    decoder = AvroDecoder(json.dumps(EVERYTHING), framed=False)
    good = written(EVERYTHING, WRITTEN)
    rows = decode(decoder, [good, bytes(data) + tail, bytes(data), good])
    assert [rows[0], rows[3]] == [READ, READ]


def test_a_decimal_that_does_not_fit_is_one_bad_record() -> None:
    schema = json.dumps(EVERYTHING)
    wide = json.loads(schema)
    next(each for each in wide["fields"] if each["name"] == "dec")["type"]["precision"] = 20
    good = written(EVERYTHING, WRITTEN)
    bad = written(wide, WRITTEN | {"dec": Decimal("123456789012345678.90")})
    assert decode(AvroDecoder(schema, framed=False), [good, bad, good]) == [READ, "corrupt", READ]


def test_a_decimal_of_very_many_digits_costs_no_time() -> None:
    """Made as fastavro makes them, a million bytes of digits take minutes, and four times as many the square."""
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_of(10, 2)}]})
    as_bytes = {"type": "record", "name": "R", "fields": [{"name": "d", "type": "bytes"}]}
    numbers = [12345, -(10**10) + 1, 10**10, -(10**10), 1 << (8 * 4_000_000)]
    values: list[bytes | None] = [
        written(as_bytes, {"d": number.to_bytes(4_000_001, "big", signed=True)}) for number in numbers
    ]
    decoder = AvroDecoder(schema, framed=False)
    expected = [{"d": Decimal("123.45")}, {"d": Decimal("-99999999.99")}, *["corrupt"] * 3]
    assert decode(decoder, [*values, written(as_bytes, {"d": b""})]) == [*expected, {"d": Decimal("0.00")}]


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_decimals_of_other_writers(kind: str) -> None:
    """The writer's scale counts; what is lost in the reader's makes a bad record."""
    reader = {"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_of(10, 2, kind)}]}
    writer = {"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_of(8, 4, kind)}]}
    lookup = by_ids(writer)
    values = [b"\0\0\0\0\1" + written(writer, {"d": Decimal(text)}) for text in ("1.2300", "1.2345")]
    decoder = AvroDecoder(json.dumps(reader), framed=True, lookup=lookup)
    assert decode(decoder, list(values)) == [{"d": Decimal("1.23")}, "corrupt"]


def decoded(reader: Any, writer: Any, number: int) -> Any:
    """Return what a reader makes of a decimal of another writer."""
    fields = [{"type": "record", "name": "R", "fields": [{"name": "d", "type": each}]} for each in (reader, writer)]
    decoder = AvroDecoder(json.dumps(fields[0]), framed=True, lookup=by_ids(fields[1]))
    data = number.to_bytes(20, "big", signed=True)
    (found,) = decode(decoder, [b"\0\0\0\0\1\x28" + data])
    return found if found == "corrupt" else found["d"]


@pytest.mark.parametrize("scale", [39, 77, 100, 1_000_040, 2_000_000, 10**9])
@pytest.mark.parametrize("own", [0, 2, 38])
def test_a_writers_very_large_scale_makes_no_zero_of_a_value(scale: int, own: int) -> None:
    """Avro allows any precision; a value may fit all the same."""
    reader, writer = decimal_of(38, own), decimal_of(10**9, scale)
    assert decoded(reader, writer, 0) == 0
    assert decoded(reader, writer, 5) == "corrupt"
    assert decoded(reader, writer, -(10**37)) == (Decimal(-(10**37)).scaleb(-scale) if scale - own <= 37 else "corrupt")


@pytest.mark.parametrize(
    ("precision", "scale"),
    [(10, 11), (10, 10**9), (10, -1), (10, -(10**9)), (10, "2"), (10, 2.0), (10, True), (10, None), (0, 0), ("10", 2)],
)
def test_a_decimal_against_avros_rules_is_refused_once(
    caplog: pytest.LogCaptureFixture, precision: Any, scale: Any
) -> None:
    writer = decimal_of(10, 2) | {"precision": precision, "scale": scale}
    assert decoded(decimal_of(10, 2), writer, 5) == "corrupt"
    (told,) = [each.getMessage() for each in caplog.records]
    assert told.startswith("schema 1 cannot be read with: a decimal with the ")
    with pytest.raises(AvroSchemaError, match="a decimal with the "):
        spark_type(json.dumps({"type": "record", "name": "R", "fields": [{"name": "d", "type": writer}]}))


def test_what_avro_does_not_take_for_a_decimal_is_read(caplog: pytest.LogCaptureFixture) -> None:
    """A logical type counts in a type of bytes or fixed, and not in a field."""
    writer = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "d", "type": "bytes", "logicalType": "decimal", "scale": 99}],
    }
    reader = {"type": "record", "name": "R", "fields": [{"name": "d", "type": "bytes"}]}
    decoder = AvroDecoder(json.dumps(reader), framed=True, lookup=by_ids(writer))
    assert decode(decoder, [b"\0\0\0\0\1\x02\x05"]) == [{"d": b"\x05"}]
    assert decoded(decimal_of(10, 2), {"type": "bytes", "logicalType": "decimal", "scale": 4}, 500) == Decimal("0.05")
    assert not caplog.records


def test_other_users_of_fastavro_keep_their_decimals() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_of(10, 2)}]}
    AvroDecoder(json.dumps(schema), framed=False)
    datum = {"d": Decimal("1.25")}
    assert fastavro.schemaless_reader(io.BytesIO(written(schema, datum)), schema, None) == datum


NOTHING = {"type": "record", "name": "E", "fields": []}


@pytest.mark.parametrize(
    "types",
    [
        [{"type": "array", "items": {"type": "null"}}],
        [NOTHING, {"type": "array", "items": "E"}],
        [
            {"type": "fixed", "name": "E", "size": 0},
            ["null", {"type": "map", "values": {"type": "array", "items": "E"}}],
        ],
        [
            {
                "type": "array",
                "items": {"type": "record", "name": "E", "fields": [{"name": "f", "type": {"type": "null"}}]},
            }
        ],
        [
            NOTHING,
            {"type": "array", "items": {"type": "record", "name": "F", "fields": [{"name": "f", "type": "E"}]}},
        ],
    ],
    ids=["null", "name", "fixed", "field", "field of name"],
)
def test_arrays_of_items_that_take_no_bytes(types: list[Any]) -> None:
    """A few bytes would make thousands of millions of them, of a writer's schema too."""
    fields = [{"name": f"f{at}", "type": each} for at, each in enumerate(types)]
    writer = json.dumps({"type": "record", "name": "R", "fields": [*fields, {"name": "i", "type": "int"}]})
    with pytest.raises(AvroSchemaError, match="an array of items that take no bytes"):
        spark_type(writer)
    reader = json.dumps({"type": "record", "name": "R", "fields": [{"name": "i", "type": "int"}]})
    decoder = AvroDecoder(reader, framed=True, lookup=by_ids(RegisteredSchema(writer, "AVRO")))
    assert decode(decoder, [b"\0\0\0\0\1" + b"\xfe\xff\xff\xff\x0f\0"]) == ["corrupt"]


@pytest.mark.parametrize("leaf", ["null", "int"])
def test_records_within_each_other_that_have_too_many_parts(leaf: str) -> None:
    """Thirty records of two fields each have a thousand million parts."""
    inner: Any = leaf
    for depth in range(30):
        fields = [{"name": "a", "type": inner}, {"name": "b", "type": inner if depth == 0 else f"R{depth - 1}"}]
        inner = {"type": "record", "name": f"R{depth}", "fields": fields}
    for read in (load_schema, spark_type):
        with pytest.raises(AvroSchemaError, match="parts, which take"):
            read(json.dumps(inner))
    wide = {"type": "record", "name": "W", "fields": [{"name": f"f{at}", "type": leaf} for at in range(99)]}
    load_schema(json.dumps(wide))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "no Avro schema"),
        ('"string"', "a record is expected"),
        ('{"type":"record","name":"R","fields":[]}', "the record has no fields"),
        ('{"type":"record","name":"R","fields":[{"name":"r","type":["null","R"]}]}', "R contains itself"),
        ('{"type":"record","name":"R","fields":[{"name":"r","type":"Unknown"}]}', "no Avro schema: UnknownType"),
        ('{"type":"record","name":"R","fields":[{"name":"r","type":["int","string"]}]}', "a union of int, string"),
        (
            json.dumps({"type": "record", "name": "R", "fields": [{"name": "r", "type": LONG_DECIMAL}]}),
            "does not fit in Spark's 38 digits",
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"r","type":{"type":"array","items":"null"}}]}',
            "an array of items that take no bytes",
        ),
    ],
)
def test_schemas_that_spark_has_nothing_for(schema: str, message: str) -> None:
    with pytest.raises(AvroSchemaError, match=message):
        spark_type(schema)
