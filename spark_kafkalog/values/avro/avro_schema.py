"""Avro schemas, loaded with fastavro to read records safely and by the reader's logical types."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

from spark_kafkalog.compat import avro
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema

LOGICAL_TYPE = "kafkalogLogicalType"
"""The property of a parsed schema that has its logical type, where fastavro does not find it."""
MOST_PARTS = 100_000
"""The most parts of a record: itself, its fields, and the parts of records in them."""
FREE_PARTS = 100
PARTS_A_BYTE = 10
"""A record may have so many parts, and so many for each byte that it takes at least: reading must not take long."""
PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum"})
_SUBSCHEMAS = frozenset({"type", "fields", "items", "values"})
_DECIMAL = "kafkalog-decimal"
"""The logical type decimal, under a name for which fastavro calls `_read_decimal`."""

Schema = Any
"""A parsed Avro schema: a dict, a list (union) or a name."""


class AvroSchemaError(ValueError):
    """A schema is invalid, or has no counterpart in Spark."""


class Writer(NamedTuple):
    """The schema that records were written with, fastavro's function that reads them, and a stream for it."""

    schema: Schema
    read: Callable[..., Any]
    stream: Callable[[bytes], io.BytesIO] = io.BytesIO


_read = io.BytesIO.read


class _Ending(io.BytesIO):
    """A stream that does not read beyond its end. It is slower than its base, which returns fewer bytes there."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = _read(self, size)
        if len(data) != size:
            raise EOFError
        return data


def load_schema(schema: RegisteredSchema | str, *, of_reader: bool = False) -> Writer:
    """Parse a schema's JSON, and the schemas that it refers to, for reading.

    `of_reader`: it is the reader's, which `spark_type` accepts, and fastavro puts its defaults into records.

    Raises:
        AvroSchemaError: The text is no Avro schema, it has an array of items that take no bytes, a record with too many
            parts or a decimal that breaks Avro's rules, or it contains itself and this version of fastavro may not be
            trusted to read that.
    """
    parsed, examined = parse(schema, expand=False)
    if of_reader:
        _convert_defaults(examined)
    _guard_choices(parsed, set())
    if examined.contains_itself or not avro.keeps_choices():
        bounded = avro.bounded_reader()
        if bounded is not None:
            return Writer(parsed, bounded)
        if examined.contains_itself:
            raise AvroSchemaError("it contains itself, which this version of fastavro may not be trusted to read")
    from fastavro import schemaless_reader

    return Writer(parsed, schemaless_reader, _Ending if examined.has_endless_arrays else io.BytesIO)


def _guard_choices(schema: Schema, seen: set[int]) -> Schema:
    """Have the numbers of branches and symbols that records claim looked up in `Choices`, throughout a parsed schema.

    `seen` has the parts that are done. Return the schema: a union becomes another list, everything else is changed.
    """
    if isinstance(schema, list):
        return avro.Choices([_guard_choices(each, seen) for each in schema])
    if not isinstance(schema, dict) or id(schema) in seen:
        return schema
    seen.add(id(schema))
    for key in _SUBSCHEMAS & schema.keys() - {"fields"}:
        schema[key] = _guard_choices(schema[key], seen)
    for field in schema.get("fields", ()):
        field["type"] = _guard_choices(field["type"], seen)
    if "symbols" in schema:
        schema["symbols"] = avro.Choices(schema["symbols"])
    for each in schema.get("__named_schemas", {}).values():
        _guard_choices(each, seen)
    return schema


def _convert_defaults(examined: _Examination) -> None:
    """Convert the defaults of a schema's records to what fastavro reads of values."""
    for record in examined.records:
        for field in record["fields"]:
            if "default" in field:
                field["default"] = _default(field["type"], field["default"], examined.named)


def _default(schema: Schema, value: Any, named: dict[str, Any]) -> Any:
    """Convert a default, which is JSON: bytes are a string in it, and fields of a record may be missing."""
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        return _default(others[0], value, named) if len(others) == 1 else value
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    kind = schema["type"]
    if not isinstance(kind, str):
        return _default(kind, value, named)
    if kind in ("bytes", "fixed") and isinstance(value, str):
        return value.encode("latin-1", "replace")
    if kind == "array" and isinstance(value, list):
        return [_default(schema["items"], each, named) for each in value]
    if kind == "map" and isinstance(value, dict):
        return {key: _default(schema["values"], each, named) for key, each in value.items()}
    if kind in ("record", "error") and isinstance(value, dict):
        given = {each["name"]: each["default"] for each in schema["fields"] if "default" in each} | value
        types = {each["name"]: each["type"] for each in schema["fields"]}
        return {name: _default(types[name], each, named) for name, each in given.items() if name in types}
    return value


def parse(schema: RegisteredSchema | str, *, expand: bool) -> tuple[Schema, _Examination]:
    """Return the parsed schema, and what is found in it."""
    import fastavro

    found = RegisteredSchema(schema, "AVRO") if isinstance(schema, str) else schema
    if found.kind != "AVRO":
        raise AvroSchemaError(f"it is of type {found.kind}, not AVRO")
    named: dict[str, Any] = {}
    try:
        for each in _references(found):
            fastavro.parse_schema(_own_logical_types(json.loads(each.text)), named_schemas=named)
        text = _own_logical_types(json.loads(found.text))
        within = dict(named)
        parsed = fastavro.parse_schema(text, named_schemas=within)
    except Exception as error:
        raise AvroSchemaError(f"no Avro schema: {type(error).__name__}: {error}") from None
    avro.register_decimals(_DECIMAL, _read_decimal)
    examined = _Examination(within, parsed)
    # Records within each other may have thousands of millions of parts, so this comes after the examination.
    return fastavro.parse_schema(text, named_schemas=named, expand=True) if expand else parsed, examined


def _own_logical_types(schema: Schema) -> Schema:
    """Return the schema (as JSON) with its logical types moved to a property of ours, which fastavro does not apply.

    It reads decimals with `_read_decimal`, because those of a writer may have another scale than the reader's.
    """
    if isinstance(schema, list):
        return [_own_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    own = {key: _own_logical_types(value) if key in _SUBSCHEMAS else value for key, value in schema.items()}
    logical = own.pop("logicalType", None)
    if isinstance(logical, str):
        own[LOGICAL_TYPE] = logical
    return own | {"logicalType": _DECIMAL} if logical == "decimal" else own


class Unscaled(bytes):
    """A decimal's bytes with their own scale. To a reader without decimals they are bytes as any."""

    scale: int


def _read_decimal(data: bytes, writer: Schema, reader: Schema = None) -> bytes | str:
    """Return a decimal for a reader that may have another scale, or bytes or text in its place."""
    if reader == "string" or (isinstance(reader, dict) and reader["type"] == "string"):
        return data.decode()
    scale = writer.get("scale", 0)
    if not isinstance(reader, dict) or reader.get("scale", 0) == scale:
        return data
    found = Unscaled(data)
    found.scale = scale
    return found


class _Takes(IntEnum):
    """The bytes of a type's values, and what fastavro does if it skips such a value where the input has ended."""

    NOTHING = 0
    """A value may take no bytes."""
    UNNOTICED = 1
    """fastavro does not notice the end."""
    NOTICED = 2
    """fastavro raises an error."""


_TAKES = {"null": _Takes.NOTHING} | dict.fromkeys(("boolean", "float", "double", "fixed"), _Takes.UNNOTICED)
"""Of primitive types; all others begin with a number, for which fastavro notices the end."""


class _Examination:
    """Examine a schema and the types that it names in one pass.

    Raises:
        AvroSchemaError: There is an array of items that take no bytes, a record with too many parts, or a decimal that
            breaks Avro's rules.
    """

    def __init__(self, named: dict[str, Any], schema: Schema) -> None:
        self.named = named
        self.records: list[dict[str, Any]] = []
        self.contains_itself = False
        self.has_endless_arrays = False
        """True if fastavro skips as many items of an array as it claims, even beyond the end of the input."""
        self._of_records: dict[str, _Takes | None] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        """The parts of each record, and the bytes that it takes at least."""
        self._takes(schema)

    def _takes(self, schema: Schema) -> _Takes:
        if isinstance(schema, list):
            for each in schema:
                self._takes(each)
            return _Takes.NOTICED
        if isinstance(schema, str):
            return _TAKES.get(schema, _Takes.NOTICED) if schema in PRIMITIVES else self._takes(self.named[schema])
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "array":
            self._array(schema)
        elif kind == "map":
            self._takes(schema["values"])
        elif schema.get(LOGICAL_TYPE) == "decimal" and kind in ("bytes", "fixed"):
            _check_decimal(schema)
        is_empty = kind == "fixed" and schema["size"] == 0
        return _Takes.NOTHING if is_empty else _TAKES.get(kind, _Takes.NOTICED)

    def _array(self, schema: dict[str, Any]) -> None:
        items = self._takes(schema["items"])
        if items is _Takes.NOTHING:
            raise AvroSchemaError("an array of items that take no bytes")
        self.has_endless_arrays |= items is _Takes.UNNOTICED

    def _record(self, schema: dict[str, Any]) -> _Takes:
        name = schema["name"]
        if name not in self._of_records:
            self._of_records[name] = None
            self.records.append(schema)
            fields = [self._takes(each["type"]) for each in schema["fields"]]
            self._of_records[name] = max(fields, default=_Takes.NOTHING)
            self._sizes[name] = self._checked_size(schema)
        found = self._of_records[name]
        if found is None:
            self.contains_itself = True
        # A record that always contains itself has no value at all.
        return _Takes.NOTICED if found is None else found

    def _checked_size(self, record: dict[str, Any]) -> tuple[int, int]:
        parts, least = 1, 0
        for field in record["fields"]:
            more, bytes_more = self._size(field["type"])
            parts, least = parts + more, least + bytes_more
        if parts > MOST_PARTS or parts > FREE_PARTS + PARTS_A_BYTE * least:
            raise AvroSchemaError(f"{record['name']} has {parts:,} parts, which take {least:,} bytes")
        return parts, least

    def _size(self, schema: Schema) -> tuple[int, int]:
        """Return the parts of a value, and the bytes that it takes at least.

        A union, an array or a map has one part and one byte: records in them are checked on their own.
        """
        kind = schema if isinstance(schema, str) else None if isinstance(schema, list) else schema["type"]
        if kind == "null" or (kind == "fixed" and schema["size"] == 0):
            return 1, 0
        if kind in ("record", "error"):
            return self._sizes.get(schema["name"], (1, 1))
        return self._sizes.get(kind, (1, 1)) if isinstance(kind, str) else (1, 1)


def _check_decimal(schema: dict[str, Any]) -> None:
    """Check a decimal by Avro's rules. As in fastavro, the precision may be missing.

    Raises:
        AvroSchemaError: It breaks them.
    """
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if precision is not None and (type(precision) is not int or precision < 1):
        raise AvroSchemaError(f"a decimal with the precision {precision!r}, which is no positive number")
    if type(scale) is not int or scale < 0 or (precision is not None and scale > precision):
        raise AvroSchemaError(
            f"a decimal with the scale {scale!r}, which is no number from 0 up to its precision {precision!r}"
        )


def _references(schema: RegisteredSchema) -> list[RegisteredSchema]:
    """Return all schemas that a schema needs, in the order of their dependencies."""
    found: list[RegisteredSchema] = []

    def add(each: RegisteredSchema) -> None:
        if each not in found:
            for inner in each.references:
                add(inner)
            found.append(each)

    for each in schema.references:
        add(each)
    return found
