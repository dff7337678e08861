"""Test which schemas a process keeps, and for how long it knows that an id has none."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection

import pytest

from spark_kafkalog.values.avro.from_avro import MOST_WRITERS, AvroDecoder
from spark_kafkalog.values.registry import known_schemas
from spark_kafkalog.values.registry.known_schemas import MISSING_S, KnownSchemas
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema, SchemaRegistryError
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
