"""The columns of a record, and the choice of those that a reader builds.

Spark does not prune columns of a Python data source (SPARK-51713), but a user may give a schema: a reader with
`.schema("value BINARY, offset BIGINT")` decodes these two columns and nothing else, in this order. The schema chooses
among the source's columns; it cannot convert them.
"""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
    VarcharType,
)

from spark_kafkalog.options.parsing import OptionsError

HEADERS = "headers"

COLUMNS: dict[str, DataType] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    HEADERS: ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])),
}


def source_schema(include_headers: bool) -> StructType:
    """Return the default schema, that of Spark's Kafka source. All columns are nullable."""
    return StructType([StructField(name, kind) for name, kind in COLUMNS.items() if include_headers or name != HEADERS])


def has_metadata(kind: DataType) -> bool:
    """Return whether a column of a schema has metadata, such as a comment, at any depth."""
    if isinstance(kind, StructType):
        return any(field.metadata or has_metadata(field.dataType) for field in kind.fields)
    if isinstance(kind, ArrayType):
        return has_metadata(kind.elementType)
    return isinstance(kind, MapType) and (has_metadata(kind.keyType) or has_metadata(kind.valueType))


def columns_of(schema: StructType) -> tuple[str, ...]:
    """Return the names of the columns to build for a schema, which may be the user's.

    Raises:
        OptionsError: The source does not have a column, or the column has another type there.
    """
    names: list[str] = []
    for column in schema.fields:
        kind = COLUMNS.get(column.name)
        if kind is None:
            alike = [name for name in COLUMNS if name.lower() == column.name.lower()]
            hint = f"did you mean '{alike[0]}'?" if alike else f"its columns are {_declaration()}"
            raise OptionsError(f"schema: the source has no column '{column.name}'; {hint}")
        if isinstance(column.dataType, VarcharType):
            raise OptionsError(
                f"schema: column '{column.name}' is {column.dataType.simpleString().upper()}, which PySpark cannot "
                "convert. If this is a table in the catalog, set spark.sql.preserveCharVarcharTypeInfo=false to read "
                f"it; a schema of the query has {kind.simpleString().upper()} there"
            )
        if column.dataType != kind:
            raise OptionsError(
                f"schema: column '{column.name}' is {kind.simpleString().upper()}, not "
                f"{column.dataType.simpleString().upper()}; the schema chooses columns, cast them afterwards"
            )
        if not column.nullable:
            raise OptionsError(f"schema: column '{column.name}' cannot be NOT NULL; all columns are nullable")
        if column.name in names:
            raise OptionsError(f"schema: column '{column.name}' is named twice")
        names.append(column.name)
    if not names:
        raise OptionsError("schema: at least one column is needed")
    return tuple(names)


def _declaration() -> str:
    return ", ".join(f"{name} {kind.simpleString().upper()}" for name, kind in COLUMNS.items())
