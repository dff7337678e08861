"""The columns that the sink accepts: those of Spark's Kafka sink, with its checks and messages."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql.types import DataType, StructType

from spark_kafkalog.options.parsing import OptionsError

_TEXT = ("string", "binary")
_HEADERS = "array<struct<key:string,value:binary>>"


@dataclass(frozen=True)
class SinkColumns:
    """Positions of the columns in a row; None for a missing column. Other columns are ignored."""

    value: int
    key: int | None = None
    topic: int | None = None
    """Also None if the option `topic` overrides it."""
    partition: int | None = None
    headers: int | None = None
    timestamp: int | None = None
    """Spark's sink accepts none: a row's timestamp is the time of its writing."""

    @classmethod
    def of(cls, schema: StructType, topic: str | None) -> SinkColumns:
        """Find the columns in `schema`; `topic` is the value of the option.

        Raises:
            OptionsError: A column is missing, or has a type that cannot be written.
        """
        if topic is None:
            topic_at = _place(schema, "topic", "string")
            if topic_at is None:
                raise OptionsError(
                    "topic option required when no 'topic' attribute is present. "
                    "Use the topic option for setting a topic."
                )
        else:
            topic_at = None
        key = _place(schema, "key", *_TEXT)
        value = _place(schema, "value", *_TEXT)
        if value is None:
            raise OptionsError("Required attribute 'value' not found")
        headers = _place(schema, "headers", _HEADERS)
        return cls(value, key, topic_at, _place(schema, "partition", "int"), headers)


def _place(schema: StructType, name: str, *types: str) -> int | None:
    for place, column in enumerate(schema.fields):
        if column.name == name:
            found = _type_name(column.dataType)
            if found not in types:
                raise OptionsError(
                    f"{name} attribute unsupported type {found}. {name} must be a(n) {' or '.join(types)}"
                )
            return place
    return None


def _type_name(kind: DataType) -> str:
    """Return a type as Spark's catalog writes it, which leaves out nullability."""
    return kind.simpleString()
