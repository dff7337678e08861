"""Spark's types as the Arrow types that PySpark expects of a data source; all of them nullable."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

_ATOMS: dict[type[DataType], pa.DataType] = {
    BooleanType: pa.bool_(),
    ByteType: pa.int8(),
    ShortType: pa.int16(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    FloatType: pa.float32(),
    DoubleType: pa.float64(),
    StringType: pa.string(),
    BinaryType: pa.binary(),
    DateType: pa.date32(),
    TimestampType: pa.timestamp("us", tz="UTC"),
    TimestampNTZType: pa.timestamp("us"),
    NullType: pa.null(),
}


def arrow_type(kind: DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type.

    Raises:
        ValueError: Values cannot have the type.
    """
    if isinstance(kind, StructType):
        return pa.struct([pa.field(each.name, arrow_type(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return pa.list_(pa.field("element", arrow_type(kind.elementType)))
    if isinstance(kind, MapType):
        return pa.map_(arrow_type(kind.keyType), arrow_type(kind.valueType))
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    found = _ATOMS.get(type(kind))
    if found is None:
        raise ValueError(f"{kind.simpleString().upper()} is not supported")
    return found


def nullable(kind: DataType) -> DataType:
    """Return the type with everything in it nullable, because a record may lack any field; and without metadata."""
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, nullable(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(nullable(kind.elementType))
    if isinstance(kind, MapType):
        return MapType(nullable(kind.keyType), nullable(kind.valueType))
    return kind


def has_not_null(kind: DataType) -> bool:
    """Return whether something in the type is NOT NULL."""
    for each in parts(kind):
        if isinstance(each, StructType) and not all(field.nullable for field in each.fields):
            return True
        if isinstance(each, ArrayType) and not each.containsNull:
            return True
        if isinstance(each, MapType) and not each.valueContainsNull:
            return True
    return False


def parts(kind: DataType) -> Iterator[DataType]:
    """Yield a type and all types within it."""
    yield kind
    if isinstance(kind, StructType):
        for each in kind.fields:
            yield from parts(each.dataType)
    elif isinstance(kind, ArrayType):
        yield from parts(kind.elementType)
    elif isinstance(kind, MapType):
        yield from parts(kind.keyType)
        yield from parts(kind.valueType)
