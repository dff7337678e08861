"""Decodes Avro values to typed columns, with fastavro.

A value is a plain datum, or one in Confluent's wire format: a zero byte, the id of the writer's schema (int32,
big-endian), the datum. Records are resolved to one reader's schema by Avro's rules. Only its logical types count, as in
Spark and Avro's own readers; fastavro would apply the writer's. Types are those of Spark's Avro module
(`SchemaConverters`), with every field nullable.

A producer chooses the bytes of a record and the id of its schema, and may be hostile. Six inputs would make fastavro
kill or stall the task, and are guarded against: deeply nested records of a schema that contains itself overflow the C
stack, and a number of very many bytes in them takes quadratic time; an array of items that take no bytes may claim any
length, and so may one of items that fastavro skips without noticing the end of the input; a few records within each
other may have thousands of millions of parts that take no bytes; a decimal of very many bytes takes quadratic time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import Context, Decimal
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

from spark_kafkalog.values.arrow_types import arrow_type
from spark_kafkalog.values.avro.avro_schema import (
    LOGICAL_TYPE,
    AvroSchemaError,
    Schema,
    Unscaled,
    Writer,
    load_schema,
    parse,
)
from spark_kafkalog.values.registry.known_schemas import drop_oldest
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema

logger = logging.getLogger(__name__)

MAGIC = 0
_FRAME = Struct(">bi")
_BEYOND = b"\0"
MOST_WRITERS = 256
"""The most schemas of writers that a decoder keeps."""
_MOST_DIGITS = 38
"""The most digits of a decimal, in Spark and in Arrow."""
_TOO_LARGE = 10**_MOST_DIGITS
_EXACT = Context(prec=_MOST_DIGITS)

Lookup = Callable[[Collection[int]], Mapping[int, RegisteredSchema]]
"""Finds the schemas of ids; those of ids that have none are missing from the answer."""

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


# ---------------------------------------------------------------------------------------------- types


def spark_type(schema: RegisteredSchema | str) -> StructType:
    """Return the struct of a record's schema.

    Raises:
        AvroSchemaError: The schema is of another type, or one contains itself.
    """
    return _spark_type(parse(schema, expand=True)[0])


def _spark_type(schema: Schema) -> StructType:
    found = _Types(()).of(schema)
    if not isinstance(found, StructType) or not isinstance(schema, dict):
        raise AvroSchemaError(f"a record is expected, not {found.simpleString()}")
    if not found.fields:
        raise AvroSchemaError("the record has no fields")
    return found


class _Types:
    """Convert an Avro type to Spark's, inside the records of these names."""

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
        if schema.get(LOGICAL_TYPE) == "decimal" and kind in ("bytes", "fixed"):
            return _decimal(schema)
        logical = _LOGICAL.get((kind, schema.get(LOGICAL_TYPE, "")))
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
    if not 0 < precision <= _MOST_DIGITS or not 0 <= scale <= precision:
        raise AvroSchemaError(f"decimal({precision},{scale}) does not fit in Spark's {_MOST_DIGITS} digits")
    return DecimalType(precision, scale)


# ---------------------------------------------------------------------------------------------- values

Convert = Callable[[Any], Any]


def _identity(value: Any) -> Any:
    return value


def converter(schema: Schema) -> Convert:
    """Return a function that converts fastavro's values for pyarrow; `_identity` if none needs conversion."""
    if isinstance(schema, list):
        return _union_converter(schema)
    if isinstance(schema, str):
        return _identity
    kind = schema["type"]
    if not isinstance(kind, str):
        return converter(kind)
    logical = schema.get(LOGICAL_TYPE)
    if kind in ("record", "error"):
        fields = [(each["name"], converter(each["type"])) for each in schema["fields"]]
        changing = [(name, convert) for name, convert in fields if convert is not _identity]
        if not changing:
            return _identity
        # The record is copied, because it may be a default, which many records share.
        return lambda value: value | {name: convert(value[name]) for name, convert in changing}
    if kind in ("array", "map"):
        inner = converter(schema["items" if kind == "array" else "values"])
        if kind == "map":
            return lambda value: [(key, inner(each)) for key, each in value.items()]
        return _identity if inner is _identity else lambda value: [inner(each) for each in value]
    if logical == "decimal" and kind in ("bytes", "fixed"):
        return _decimal_converter(schema)
    if logical in ("timestamp-millis", "local-timestamp-millis") and kind == "long":
        return lambda value: value * 1000
    return _identity


def _decimal_converter(schema: dict[str, Any]) -> Convert:
    own_scale, own_limit = schema.get("scale", 0), 10 ** schema["precision"]

    def convert(value: bytes) -> Decimal:
        scale, limit = (value.scale, _TOO_LARGE) if isinstance(value, Unscaled) else (own_scale, own_limit)
        number = int.from_bytes(value, "big", signed=True)
        # To compute very many digits would take quadratic time.
        if abs(number) >= limit:
            raise ValueError("too many digits")
        if scale > own_scale:
            # A number that is not zero ends with fewer zeros than it may have digits, whatever the writer's scale is.
            number, lost = divmod(number, 10 ** min(scale - own_scale, _MOST_DIGITS))
            if lost:
                raise ValueError("digits behind the point would be lost")
            scale = own_scale
        return Decimal(number).scaleb(-scale, _EXACT)

    return convert


def _union_converter(branches: list[Schema]) -> Convert:
    """Return the converter of a union that `spark_type` accepts: null, and one type or two kinds of numbers."""
    others = [converter(each) for each in branches if each != "null"]
    if all(each is _identity for each in others):
        return _identity
    (only,) = others
    return lambda value: None if value is None else only(value)


class AvroDecoder:
    """Decodes binary columns of records with one reader's schema.

    `framed`: values are in Confluent's wire format. `lookup` finds the schemas of ids; without it, all
    records were written with the reader's schema.
    """

    def __init__(self, reader: RegisteredSchema | str, *, framed: bool, lookup: Lookup | None = None) -> None:
        expanded, _ = parse(reader, expand=True)
        self.type = arrow_type(_spark_type(expanded))
        self._reader = load_schema(reader, of_reader=True)
        self._convert = converter(expanded)
        self._framed = framed
        self._lookup = lookup
        self._writers: dict[int, Writer | None] = {}

    def decode(self, values: pa.Array) -> tuple[pa.Array, pa.Array]:
        """Return the structs, null where a value is null or undecodable, and a mask of the undecodable ones.

        Errors of `lookup` (if the registry fails) pass through.
        """
        rows: list[Any] = []
        bad = np.zeros(len(values), bool)
        listed = values.to_pylist()
        writer_of = self._writer_of(listed)
        for at, value in enumerate(listed):
            row = None if value is None else self._row(value, writer_of(value))
            bad[at] = row is None and value is not None
            rows.append(row)
        try:
            found = pa.array(rows, self.type)
        except (pa.ArrowException, ValueError, OverflowError, TypeError):
            found = self._one_by_one(rows, bad)
        return found, pa.array(bad)

    def _one_by_one(self, rows: list[Any], bad: Any) -> pa.Array:
        """Convert rows one by one, if one does not fit its type: too many digits of a decimal, or invalid UTF-8."""
        arrays = []
        for at, row in enumerate(rows):
            try:
                arrays.append(pa.array([row], self.type))
            except (pa.ArrowException, ValueError, OverflowError, TypeError):
                arrays.append(pa.nulls(1, self.type))
                bad[at] = True
        return pa.concat_arrays(arrays)

    def _writer_of(self, values: Sequence[bytes | None]) -> Callable[[bytes], Writer | None]:
        """Return a function that finds the writer's schema of one of the values; None if the value names none.

        Errors of `lookup` pass through.
        """
        if not self._framed:
            return lambda _: self._reader
        if self._lookup is None:
            return lambda value: None if _schema_id(value) is None else self._reader
        ids = {_schema_id(value) for value in values if value is not None}
        writers = self._writers_by_id({each for each in ids if each is not None}, self._lookup)
        return lambda value: None if (each := _schema_id(value)) is None else writers.get(each)

    def _row(self, value: bytes, writer: Writer | None) -> Any:
        """Return the record that `writer` reads; None if the bytes are not one, or there is no `writer`."""
        if writer is None:
            return None
        # fastavro skips a field that the record's end cuts short. It then reads the byte that is added here.
        stream = writer.stream(value + _BEYOND)
        stream.seek(_FRAME.size if self._framed else 0)
        try:
            datum = writer.read(stream, writer.schema, None if writer is self._reader else self._reader.schema)
            return self._convert(datum) if stream.tell() == len(value) else None
        except Exception:
            # Invalid input makes fastavro raise errors of all kinds.
            return None

    def _writers_by_id(self, ids: Collection[int], lookup: Lookup) -> dict[int, Writer | None]:
        """Return the writers' schemas of ids; None for one that cannot be used.

        An id without a schema is left out. It may be registered later; `lookup` knows when to ask again.
        """
        writers = {each: self._writers[each] for each in ids if each in self._writers}
        if unknown := sorted(set(ids) - writers.keys()):
            for each, schema in lookup(unknown).items():
                writers[each] = self._writers[each] = _load_writer(each, schema)
            drop_oldest(self._writers, MOST_WRITERS)
        return writers


def _schema_id(value: bytes) -> int | None:
    """Return the id in a value's frame; None if it has no frame."""
    if len(value) < _FRAME.size or value[0] != MAGIC:
        return None
    schema_id: int = _FRAME.unpack_from(value)[1]
    return schema_id


def _load_writer(schema_id: int, schema: RegisteredSchema) -> Writer | None:
    try:
        return load_schema(schema)
    except AvroSchemaError as error:
        logger.warning("schema %d cannot be read with: %s", schema_id, error)
        return None
