"""Avro values to typed columns, by fastavro.

A value is a plain datum, or one in Confluent's wire format: a zero byte, the id of the writer's schema (int32,
big-endian), the datum. Records are resolved to one reader's schema by Avro's rules. Types are those of Spark's Avro
module (``SchemaConverters``), with every field nullable.
"""

from __future__ import annotations

import datetime
import io
import json
import logging
import uuid
from collections.abc import Callable
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from .registry import RegisteredSchema
from .types import arrow_type

_log = logging.getLogger(__name__)

MAGIC = 0
_FRAME = Struct(">bi")

Schema = Any
"""A parsed Avro schema: a dict, a list (union) or a name."""
Lookup = Callable[[int], RegisteredSchema | None]

_PRIMITIVES: dict[str, DataType] = {
    "null": NullType(), "boolean": BooleanType(), "int": IntegerType(), "long": LongType(), "float": FloatType(),
    "double": DoubleType(), "bytes": BinaryType(), "string": StringType(), "fixed": BinaryType(),
    "enum": StringType(),
}  # fmt: skip
_LOGICAL: dict[tuple[str, str], DataType] = {
    ("int", "date"): DateType(),
    ("long", "timestamp-millis"): TimestampType(),
    ("long", "timestamp-micros"): TimestampType(),
    ("long", "local-timestamp-millis"): TimestampNTZType(),
    ("long", "local-timestamp-micros"): TimestampNTZType(),
}


class AvroSchemaError(ValueError):
    """A schema that is none, or one that has no counterpart in Spark."""


def load_schema(schema: RegisteredSchema | str) -> Schema:
    """Parse a schema's JSON, with those it refers to, for reading. Raises AvroSchemaError."""
    return _parse(schema, expand=False)


def _parse(schema: RegisteredSchema | str, *, expand: bool) -> Schema:
    import fastavro

    found = RegisteredSchema(schema, "AVRO") if isinstance(schema, str) else schema
    if found.kind != "AVRO":
        raise AvroSchemaError(f"it is of type {found.kind}, not AVRO")
    named: dict[str, Any] = {}
    try:
        for each in _references(found):
            fastavro.parse_schema(json.loads(each.text), named_schemas=named)
        parsed = fastavro.parse_schema(json.loads(found.text), named_schemas=named, expand=expand)
    except Exception as error:
        raise AvroSchemaError(f"no Avro schema: {type(error).__name__}: {error}") from None
    _check_items(parsed)
    return parsed


def _check_items(schema: Schema) -> None:
    """Refuse arrays of what takes no bytes: four bytes of them may claim any number of items."""
    if isinstance(schema, list):
        for each in schema:
            _check_items(each)
    elif isinstance(schema, dict):
        kind = schema["type"]
        items = schema.get("items", schema.get("values") if kind == "map" else None)
        if kind == "array" and (items == "null" or (isinstance(items, dict) and not _takes_bytes(items))):
            raise AvroSchemaError("an array of items that take no bytes")
        for each in (items, *(each["type"] for each in schema.get("fields", ()))):
            _check_items(each)


def _takes_bytes(schema: dict[str, Any]) -> bool:
    if schema["type"] in ("record", "error"):
        return any(each["type"] != "null" for each in schema["fields"])
    return schema["type"] != "null" and schema.get("size") != 0


def _references(schema: RegisteredSchema) -> list[RegisteredSchema]:
    """All schemas that a schema needs, those first that others need."""
    found: list[RegisteredSchema] = []
    for each in schema.references:
        found += [inner for inner in [*_references(each), each] if inner not in found]
    return found


# ---------------------------------------------------------------------------------------------- types


def spark_type(schema: RegisteredSchema | str) -> StructType:
    """The struct of a record's schema. AvroSchemaError for any other, and for one that contains itself."""
    return _spark_type(_parse(schema, expand=True))


def _spark_type(schema: Schema) -> StructType:
    found = _Types(()).of(schema)
    if not isinstance(found, StructType) or not isinstance(schema, dict):
        raise AvroSchemaError(f"a record is expected, not {found.simpleString()}")
    if not found.fields:
        raise AvroSchemaError("the record has no fields")
    return found


class _Types:
    """Avro to Spark, within the records of these names."""

    def __init__(self, within: tuple[str, ...]) -> None:
        self._within = within

    def of(self, schema: Schema) -> DataType:
        if isinstance(schema, list):
            return self._union(schema)
        if isinstance(schema, str):
            if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            raise AvroSchemaError(f"{schema} contains itself, which Spark's types cannot")
        kind = schema["type"]
        if not isinstance(kind, str):
            return self.of(kind)
        if schema.get("logicalType") == "decimal" and kind in ("bytes", "fixed"):
            return _decimal(schema)
        logical = _LOGICAL.get((kind, schema.get("logicalType", "")))
        if logical is not None:
            return logical
        if kind in ("record", "error"):
            inner = _Types((*self._within, schema["name"]))
            if schema["name"] in self._within:
                raise AvroSchemaError(f"{schema['name']} contains itself, which Spark's types cannot")
            return StructType([StructField(each["name"], inner.of(each["type"])) for each in schema["fields"]])
        if kind == "array":
            return ArrayType(self.of(schema["items"]))
        if kind == "map":
            return MapType(StringType(), self.of(schema["values"]))
        return self.of(kind) if kind not in _PRIMITIVES else _PRIMITIVES[kind]

    def _union(self, branches: list[Schema]) -> DataType:
        kinds = [self.of(each) for each in branches if each != "null"]
        if not kinds:
            return NullType()
        if len(kinds) == 1:
            return kinds[0]
        names = {kind.typeName() for kind in kinds}
        if names == {"integer", "long"}:
            return LongType()
        if names == {"float", "double"}:
            return DoubleType()
        listed = ", ".join(kind.simpleString() for kind in kinds)
        raise AvroSchemaError(f"a union of {listed} is not supported; give a valueSchema with null and one type there")


def _decimal(schema: dict[str, Any]) -> DecimalType:
    precision, scale = schema.get("precision", 0), schema.get("scale", 0)
    if not 0 < precision <= 38 or not 0 <= scale <= precision:
        raise AvroSchemaError(f"decimal({precision},{scale}) does not fit in Spark's 38 digits")
    return DecimalType(precision, scale)


# ---------------------------------------------------------------------------------------------- values

Convert = Callable[[Any], Any]


def _identity(value: Any) -> Any:
    return value


def converter(schema: Schema) -> Convert:
    """What makes of fastavro's values what pyarrow takes; most of them need nothing done."""
    if isinstance(schema, list):
        return _union_converter(schema)
    if isinstance(schema, str):
        return _identity
    kind = schema["type"]
    if not isinstance(kind, str):
        return converter(kind)
    logical = schema.get("logicalType")
    if kind in ("record", "error"):
        fields = [(each["name"], converter(each["type"])) for each in schema["fields"]]
        if all(convert is _identity for _, convert in fields):
            return _identity
        return lambda value: {name: convert(value[name]) for name, convert in fields}
    if kind in ("array", "map"):
        inner = converter(schema["items" if kind == "array" else "values"])
        if kind == "map":
            return lambda value: [(key, inner(each)) for key, each in value.items()]
        return _identity if inner is _identity else lambda value: [inner(each) for each in value]
    if logical == "uuid":
        return lambda value: str(value) if isinstance(value, uuid.UUID) else value
    if logical == "time-millis":
        return lambda value: _micros(value) // 1000
    if logical == "time-micros":
        return _micros
    return _identity


def _micros(value: Any) -> int:
    """Spark's type of a time of day is its number."""
    if isinstance(value, datetime.time):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    return int(value)


def _union_converter(branches: list[Schema]) -> Convert:
    """Of a union that ``spark_type`` takes: null, and one type or two kinds of numbers."""
    others = [converter(each) for each in branches if each != "null"]
    if all(each is _identity for each in others):
        return _identity
    (only,) = others
    return lambda value: None if value is None else only(value)


class AvroDecoder:
    """Decodes binary columns of records with one reader's schema.

    ``framed``: values are in Confluent's wire format. ``lookup`` finds the schema of an id; without it, all records
    were written with the reader's.
    """

    def __init__(self, reader: RegisteredSchema | str, *, framed: bool, lookup: Lookup | None = None) -> None:
        import fastavro

        self._read = fastavro.schemaless_reader
        expanded = _parse(reader, expand=True)
        self.type = arrow_type(_spark_type(expanded))
        self._reader = load_schema(reader)
        self._convert = converter(expanded)
        self._framed = framed
        self._lookup = lookup
        self._writers: dict[int, Schema | None] = {}

    def decode(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """The structs, null where a value is null or no such record, and a mask of the latter.

        What ``lookup`` raises where the registry cannot be asked passes through.
        """
        rows: list[Any] = []
        bad = np.zeros(len(values), bool)
        for at, value in enumerate(values.to_pylist()):
            row = None if value is None else self._row(value)
            bad[at] = row is None and value is not None
            rows.append(row)
        try:
            found = pa.array(rows, self.type)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            found = self._one_by_one(rows, bad)
        return found, pa.array(bad)

    def _one_by_one(self, rows: list[Any], bad: Any) -> pa.Array:
        """Where one of the rows does not fit its type: a decimal of too many digits, text that is no UTF-8."""
        arrays = []
        for at, row in enumerate(rows):
            try:
                arrays.append(pa.array([row], self.type))
            except (pa.ArrowException, ValueError, OverflowError, TypeError):
                arrays.append(pa.nulls(1, self.type))
                bad[at] = True
        return pa.concat_arrays(arrays)

    def _row(self, value: bytes) -> Any:
        """The record, or None where the bytes are none."""
        writer, start = self._reader, 0
        if self._framed:
            if len(value) < _FRAME.size or value[0] != MAGIC:
                return None
            if self._lookup is not None:
                writer = self._writer(_FRAME.unpack_from(value)[1])
            start = _FRAME.size
        if writer is None:
            return None
        stream = io.BytesIO(value)
        stream.seek(start)
        try:
            datum = self._read(stream, writer, None if writer is self._reader else self._reader)
            return self._convert(datum) if stream.tell() == len(value) else None
        except Exception:
            # fastavro raises whatever its input makes its code run into.
            return None

    def _writer(self, schema_id: int) -> Schema | None:
        if schema_id not in self._writers:
            assert self._lookup is not None
            found = self._lookup(schema_id)
            try:
                self._writers[schema_id] = None if found is None else load_schema(found)
            except AvroSchemaError as error:
                _log.warning("schema %d cannot be read with: %s", schema_id, error)
                self._writers[schema_id] = None
        return self._writers[schema_id]
