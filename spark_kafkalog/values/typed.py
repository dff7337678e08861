"""The column `value` as a struct: converts schemas and record batches between the user's and the binary form.

The underlying readers know only binary values. `Typed.binary_schema` turns the user's schema into the one that they
read, and `Typed.batch` turns their record batches into the user's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import BinaryType, DataType, StructField, StructType

from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.process_cache import ProcessCache
from spark_kafkalog.values.arrow_types import has_not_null, nullable
from spark_kafkalog.values.registry.known_schemas import KnownSchemas, TaskSchemas
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema, RegistryConfig, SchemaRegistry
from spark_kafkalog.values.value_options import ValueOptions

VALUE = "value"

SCHEMAS: ProcessCache[RegistryConfig, KnownSchemas] = ProcessCache(8)
"""Schemas by registry, for the tasks of this process. The schema of an id never changes."""


@dataclass(frozen=True)
class Typed:
    """The way in which values are decoded: everything that executors need to know."""

    options: ValueOptions
    value: StructType | None
    """The struct; None if only the user's own schema can define it (`valueFormat=json` without `valueSchema`)."""
    reader: RegisteredSchema | None = None
    """The Avro reader's schema."""

    def schema(self, source: StructType) -> StructType:
        """Return the source's schema with the typed value column, and a column for values that cannot be decoded."""
        if self.value is None:
            raise OptionsError(
                "valueFormat=json needs valueSchema, e.g. 'id BIGINT, name STRING', or a schema with a struct: "
                '.schema("value STRUCT<id: BIGINT, name: STRING>, offset BIGINT")'
            )
        fields = [StructField(VALUE, self.value) if each.name == VALUE else each for each in source.fields]
        return StructType([*fields, StructField(self.options.corrupt_column, BinaryType())])

    def chosen(self, schema: StructType) -> Typed:
        """Take the struct from a schema that may be the user's.

        Raises:
            OptionsError: The schema does not fit.
        """
        for each in schema.fields:
            if each.name == self.options.corrupt_column and each.dataType != BinaryType():
                raise OptionsError(
                    f"schema: column '{each.name}' is BINARY, not {each.dataType.simpleString().upper()}"
                )
            if each.name in (VALUE, self.options.corrupt_column) and not each.nullable:
                raise OptionsError(f"schema: column '{each.name}' cannot be NOT NULL; all columns are nullable")
            if each.name != VALUE:
                continue
            if has_not_null(each.dataType):
                raise OptionsError("schema: fields of column 'value' cannot be NOT NULL; a record may lack any")
            if self.value is None and isinstance(each.dataType, StructType):
                return replace(self, value=checked_json(each.dataType, "schema: column 'value'"))
            if self.value is not None and nullable(each.dataType) != self.value:
                raise self._differs(self.value, each.dataType)
        if self.value is None and self._reads_values(schema):
            self.schema(schema)  # raises
        return self

    def _differs(self, ours: StructType, other: DataType) -> OptionsError:
        """Return the error of a schema whose values are of another type."""
        here, there = ours.simpleString(), other.simpleString()
        if self.options.format == "json":
            return OptionsError(
                f"schema: column 'value' is {here} by valueFormat={self.options.format}, not {there}; leave "
                "valueSchema out to read it as in the schema"
            )
        if self.options.avro_schema is None:
            return OptionsError(
                f"schema: column 'value' is {here} by the latest schema in the registry, not {there}; set valueSchema "
                "to an Avro schema with these fields; a table can be created anew instead"
            )
        return OptionsError(f"schema: column 'value' is {here}, not {there}")

    def kept(self, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options that a table keeps: with the reader's schema, if that is from a registry.

        A later version of the schema would not fit the table's columns. A schema that refers to others cannot be kept,
        and one of values without frames has no meaning beside a registry.
        """
        if self.reader is None or self.options.avro_schema is not None or not self.options.framed:
            return dict(options)
        return dict(options) if self.reader.references else {**options, "valueschema": self.reader.text}

    def binary_schema(self, schema: StructType) -> StructType:
        """Return the schema that the underlying reader must read for `schema`: values as bytes."""
        fields = [
            StructField(VALUE, BinaryType()) if each.name == VALUE else each
            for each in schema.fields
            if each.name != self.options.corrupt_column
        ]
        if self._reads_values(schema) and all(each.name != VALUE for each in fields):
            fields.append(StructField(VALUE, BinaryType()))
        return StructType(fields)

    def _reads_values(self, schema: StructType) -> bool:
        return any(each.name in (VALUE, self.options.corrupt_column) for each in schema.fields)

    def begin(self) -> None:
        """Begin to decode the records of a task, or of a micro-batch that the planner reads."""
        self._schemas.begin()

    def batch(self, batch: pa.RecordBatch, names: tuple[str, ...]) -> pa.RecordBatch:
        """Return a batch of records with columns `names` and decoded values. Null values stay null.

        Raises:
            SchemaRegistryError: The registry fails.
        """
        if VALUE not in batch.schema.names:
            return batch
        raw = batch.column(VALUE)
        values, bad = self._decoder.decode(raw)
        made = {VALUE: values}
        if self.options.corrupt_column in names:
            made[self.options.corrupt_column] = pc.if_else(bad, raw, pa.scalar(None, pa.binary()))
        return pa.RecordBatch.from_arrays(
            [made.get(name) if name in made else batch.column(name) for name in names], names=list(names)
        )

    @cached_property
    def _decoder(self) -> Any:
        assert self.value is not None
        if self.options.format == "json":
            from spark_kafkalog.values.from_json import JsonDecoder

            return JsonDecoder(self.value, self.options.time_zone)
        from spark_kafkalog.values.avro.from_avro import AvroDecoder

        assert self.reader is not None
        lookup = None if self.options.registry is None else self._schemas.get
        return AvroDecoder(self.reader, framed=self.options.framed, lookup=lookup)

    @cached_property
    def _schemas(self) -> TaskSchemas:
        return TaskSchemas(self._schemas_of, self.options.most_missing_ids)

    def _schemas_of(self, ids: Collection[int]) -> Mapping[int, RegisteredSchema]:
        config = self.options.registry
        assert config is not None
        return SCHEMAS.get(config, lambda: KnownSchemas(SchemaRegistry(config).by_id)).get(ids)

    def __getstate__(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_decoder", "_schemas")}


def checked_json(schema: StructType, where: str) -> StructType:
    from spark_kafkalog.values.from_json import check_supported

    try:
        check_supported(schema)
    except ValueError as error:
        raise OptionsError(f"{where}: {error}") from None
    return schema
