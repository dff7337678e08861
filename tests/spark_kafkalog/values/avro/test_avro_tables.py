"""Test catalog tables whose values have a schema from a registry, when the subject gets another version."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql.types import StringType, StructField, StructType

from spark_kafkalog import catalog_table
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.source import KafkalogDataSource
from tests.spark_kafkalog.values.registry_server import RegistryServer

MARKS = {"owner": "root", "provider": "kafkalog"}


def record(*names: str) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": each, "type": "int", "default": 0} for each in names]}


def create(registry: RegistryServer, **more: str) -> tuple[dict[str, str], StructType]:
    """Create a table; return its options, and its schema as readers get it: Spark makes a VARCHAR a STRING."""
    options = {"kafka.bootstrap.servers": "localhost:9", "subscribe": "t", "valueformat": "avro"}
    options |= {"schemaregistry.url": registry.url, **more}
    marked = {**MARKS, **{f"option.{name}": text for name, text in options.items()}}
    topic = StructField("topic", StringType())
    created = KafkalogDataSource(marked).schema().fields
    return options, StructType([topic if each.name == "topic" else each for each in created])


def test_a_table_keeps_the_schema_of_its_values(registry: RegistryServer) -> None:
    registry.register("t-value", record("a"))
    _, table = create(registry)
    registry.register("t-value", record("a", "b"))
    assert table["value"].dataType.simpleString() == "struct<a:int>"
    KafkalogDataSource({}).reader(table)
    KafkalogDataSource({"startingoffsets": "earliest"}).reader(table)


def test_a_table_without_frames_names_what_helps(registry: RegistryServer) -> None:
    registry.register("t-value", record("a"))
    options, table = create(registry, avroframing="none")
    assert catalog_table.options_in(table) == options, "a registry has no meaning beside valueSchema then"
    KafkalogDataSource({}).reader(table)
    registry.register("t-value", record("a", "b"))
    with pytest.raises(OptionsError) as caught:
        KafkalogDataSource({}).reader(table)
    assert str(caught.value) == (
        "schema: column 'value' is struct<a:int,b:int> by the latest schema in the registry, not struct<a:int>; set "
        "valueSchema to an Avro schema with these fields; a table can be created anew instead"
    )


def test_a_schema_that_is_given_is_kept_as_it_is(registry: RegistryServer) -> None:
    options, table = create(registry, valueschema=json.dumps(record("a")))
    assert catalog_table.options_in(table) == options
