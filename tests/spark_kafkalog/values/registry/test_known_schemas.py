"""Test which schemas a process keeps, and for how long it knows that an id has none."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection

import pyarrow as pa
import pytest

from spark_kafkalog.values.avro.from_avro import MOST_WRITERS, AvroDecoder
from spark_kafkalog.values.registry import known_schemas
from spark_kafkalog.values.registry.known_schemas import MISSING_S, KnownSchemas
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema, SchemaRegistryError
from spark_kafkalog.values.typed_readers import decoded
from tests.spark_kafkalog.values.avro.avro_values import SIMPLE, decode, read, typed, written
from tests.spark_kafkalog.values.registry_server import RegistryServer

SCHEMA = RegisteredSchema(json.dumps(SIMPLE), "AVRO")


class Registry:
    """A registry that remembers what it is asked, and a clock."""

    def __init__(self) -> None:
        self.schemas: dict[int, RegisteredSchema] = {}
        self.asked: list[int] = []
        self.now = 100.0

    def by_id(self, schema_id: int) -> RegisteredSchema | None:
        self.asked.append(schema_id)
        return self.schemas.get(schema_id)

    def by_ids(self, ids: Collection[int]) -> dict[int, RegisteredSchema]:
        return {each: schema for each in ids if (schema := self.by_id(each)) is not None}


def test_a_missing_id_is_asked_for_again_after_some_seconds() -> None:
    registry = Registry()
    known = KnownSchemas(registry.by_id, lambda: registry.now)
    assert [known.get([7]) for _ in range(3)] == [{}] * 3
    registry.schemas[7] = SCHEMA
    registry.now += MISSING_S - 1
    assert known.get([7]) == {}
    assert registry.asked == [7]
    registry.now += 1
    assert [known.get([7]) for _ in range(3)] == [{7: SCHEMA}] * 3
    assert registry.asked == [7, 7]


def test_ids_of_a_batch_are_asked_for_at_once() -> None:
    together = threading.Barrier(known_schemas.REQUESTS)

    def by_id(schema_id: int) -> RegisteredSchema | None:
        together.wait(60)
        return SCHEMA if schema_id % 2 else None

    ids = range(2 * known_schemas.REQUESTS)
    assert KnownSchemas(by_id).get(ids) == dict.fromkeys(ids[1::2], SCHEMA)


def test_what_was_found_before_a_failure_is_kept() -> None:
    registry = Registry()
    registry.schemas[1] = SCHEMA

    def by_id(schema_id: int) -> RegisteredSchema | None:
        if schema_id == 3:
            raise SchemaRegistryError("gone")
        return registry.by_id(schema_id)

    known = KnownSchemas(by_id)
    with pytest.raises(SchemaRegistryError, match="gone"):
        known.get([1, 2, 3])
    registry.asked.clear()
    assert known.get([1, 2]) == {1: SCHEMA}
    assert registry.asked == []


def test_the_oldest_are_forgotten() -> None:
    registry = Registry()
    registry.schemas = dict.fromkeys(range(known_schemas.MOST_SCHEMAS + 1), SCHEMA)
    known = KnownSchemas(registry.by_id, lambda: registry.now)
    for each in (*registry.schemas, *range(-1, -known_schemas.MOST_MISSING - 2, -1)):
        known.get([each])
    registry.asked.clear()
    for each in (known_schemas.MOST_SCHEMAS, -known_schemas.MOST_MISSING - 1, 1, -2):
        known.get([each])
    assert registry.asked == []
    known.get([0])
    known.get([-1])
    assert registry.asked == [0, -1]


def test_a_decoder_keeps_some_writers() -> None:
    registry = Registry()
    registry.schemas = dict.fromkeys(range(MOST_WRITERS + 1), SCHEMA)
    decoder = AvroDecoder(SCHEMA, framed=True, lookup=registry.by_ids)
    row = {"id": 1, "name": None}
    values: list[bytes | None] = [
        b"\0" + each.to_bytes(4, "big") + written(SIMPLE, row) for each in (*registry.schemas, MOST_WRITERS, 0)
    ]
    assert decode(decoder, values) == [row] * len(values)
    assert registry.asked == [*registry.schemas]
    decode(decoder, values[-2:])
    assert registry.asked == [*registry.schemas, 0]


def test_tasks_of_a_process_ask_once_for_an_id_that_is_missing(registry: RegistryServer) -> None:
    registry.register("users-value", SIMPLE)
    value = b"\0\0\0\0\x63" + written(SIMPLE, {"id": 1, "name": None})
    for _ in range(3):
        assert read(typed(registry, valueSchema=json.dumps(SIMPLE)), [value, value]) == [(None, value)] * 2
    assert registry.requests == ["/schemas/ids/99"]


def test_a_batch_of_many_missing_ids_asks_once_for_each(registry: RegistryServer) -> None:
    registry.register("users-value", SIMPLE)
    datum = written(SIMPLE, {"id": 1, "name": None})
    missing = [b"\0" + each.to_bytes(4, "big") + datum for each in range(100, 200)]
    good = b"\0\0\0\0\1" + datum
    found = typed(registry, valueSchema=json.dumps(SIMPLE))
    for _ in range(2):
        rows = read(found, [*missing, good])
        assert rows == [*((None, value) for value in missing), ({"id": 1, "name": None}, None)]
    assert sorted(registry.requests) == sorted(f"/schemas/ids/{each}" for each in (1, *range(100, 200)))


def test_a_task_with_too_many_missing_ids_ends(registry: RegistryServer) -> None:
    """Long before it has asked for all of them. Ids that are remembered cost no further request."""
    registry.register("users-value", SIMPLE)
    datum = written(SIMPLE, {"id": 1, "name": None})
    values = [b"\0" + each.to_bytes(4, "big") + datum for each in range(1, 3001)]
    found = typed(registry, valueSchema=json.dumps(SIMPLE), **{"schemaRegistry.max.missing.ids": "250"})
    with pytest.raises(SchemaRegistryError, match=r"it knows none of 299 schema ids .* such as 2, 3, 4, .* than 250"):
        read(found, [*values])
    assert len(registry.requests) == 300
    found.begin()
    rows = read(found, [*values[:251]])
    assert rows == [({"id": 1, "name": None}, None), *((None, value) for value in values[1:251])]
    assert len(registry.requests) == 300
    with pytest.raises(SchemaRegistryError, match="it knows none of 251 schema ids"):
        read(found, [*values[:252]])


def test_each_task_and_each_small_batch_has_its_own_limit(registry: RegistryServer) -> None:
    values = [b"\0" + each.to_bytes(4, "big") for each in range(1, 7)]
    found = typed(registry, valueSchema=json.dumps(SIMPLE), **{"schemaRegistry.max.missing.ids": "3"})
    for some in (values[:3], values[3:], values[:3]):
        batch = pa.record_batch({"value": pa.array(some, pa.binary())})
        (rows,) = decoded(iter([batch]), found, ("value", "_corrupt_record"))
        assert rows.column(1).to_pylist() == some
    with pytest.raises(SchemaRegistryError, match="it knows none of 6 schema ids"):
        read(found, [*values[3:]])
