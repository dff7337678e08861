"""Values in Avro, written by fastavro or by Confluent's serializer, and how the source decodes them."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from collections.abc import Collection, Sequence
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from spark_kafkalog.values.avro.from_avro import AvroDecoder, Lookup
from spark_kafkalog.values.registry.schema_registry import RegisteredSchema
from spark_kafkalog.values.typed import Typed
from spark_kafkalog.values.value_options import ValueOptions
from spark_kafkalog.values.value_types import plan
from tests.spark_kafkalog.values.registry_server import RegistryServer

EVERYTHING: dict[str, Any] = {
    "type": "record",
    "name": "Everything",
    "namespace": "org.example",
    "fields": [
        {"name": "i", "type": "int"},
        {"name": "l", "type": ["null", "long"], "default": None},
        {"name": "il", "type": ["int", "null", "long"]},
        {"name": "f", "type": "float"},
        {"name": "d", "type": ["float", "double"]},
        {"name": "b", "type": "boolean"},
        {"name": "s", "type": "string"},
        {"name": "y", "type": "bytes"},
        {"name": "x", "type": {"type": "fixed", "name": "Four", "size": 4}},
        {"name": "e", "type": {"type": "enum", "name": "Suit", "symbols": ["HEARTS", "SPADES"]}},
        {"name": "e2", "type": ["null", "Suit"]},
        {"name": "date", "type": {"type": "int", "logicalType": "date"}},
        {"name": "ms", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "us", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "lus", "type": {"type": "long", "logicalType": "local-timestamp-micros"}},
        {"name": "tms", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "tus", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "dec", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "fdec", "type": {"type": "fixed", "name": "F", "size": 5, "logicalType": "decimal", "precision": 9}},
        {"name": "u", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "a", "type": {"type": "array", "items": ["null", "int"]}},
        {"name": "m", "type": {"type": "map", "values": {"type": "array", "items": "Suit"}}},
        {
            "name": "r",
            "type": ["null", {"type": "record", "name": "Point", "fields": [{"name": "at", "type": "Four"}]}],
        },
        {"name": "rs", "type": {"type": "array", "items": "Point"}},
        {"name": "mu", "type": {"type": "map", "values": {"type": "string", "logicalType": "uuid"}}},
    ],
}
DDL = (
    "struct<i:int,l:bigint,il:bigint,f:float,d:double,b:boolean,s:string,y:binary,x:binary,e:string,e2:string,"
    "date:date,ms:timestamp,us:timestamp,lus:timestamp_ntz,tms:int,tus:bigint,dec:decimal(10,2),fdec:decimal(9,0),"
    "u:string,a:array<int>,m:map<string,array<string>>,r:struct<at:binary>,rs:array<struct<at:binary>>,"
    "mu:map<string,string>>"
)
AN_ID = uuid.UUID("12345678-1234-5678-1234-567812345678")
WRITTEN = {
    "i": -5, "l": 2**62, "il": 2**40, "f": 0.5, "d": 0.25, "b": True, "s": "é", "y": b"\x00\xff", "x": b"1234",
    "e": "SPADES", "e2": None, "date": datetime.date(1969, 1, 2),
    "ms": datetime.datetime(2024, 1, 2, 3, 4, 5, 678000, datetime.UTC),
    "us": datetime.datetime(1960, 1, 2, 3, 4, 5, 678901, datetime.UTC),
    "lus": datetime.datetime(2024, 1, 2, 3, 4, 5, 678901), "tms": datetime.time(1, 2, 3, 4000),
    "tus": datetime.time(1, 2, 3, 4005), "dec": Decimal("-12345678.90"), "fdec": Decimal("999999999"), "u": AN_ID,
    "a": [1, None], "m": {"k": ["HEARTS"]}, "r": {"at": b"abcd"}, "rs": [{"at": b"0000"}], "mu": {"k": AN_ID},
}  # fmt: skip
READ = WRITTEN | {
    "tms": 3723004,
    "tus": 3723004005,
    "u": str(AN_ID),
    "m": [("k", ["HEARTS"])],
    "mu": [("k", str(AN_ID))],
}
SIMPLE = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "id", "type": "long"}, {"name": "name", "type": ["null", "string"], "default": None}],
}


LONG_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 50}


def written(schema: Any, datum: Any) -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), datum)
    return stream.getvalue()


def decode(decoder: AvroDecoder, values: Sequence[bytes | None]) -> list[Any]:
    found, bad = decoder.decode(pa.array(values, pa.binary()))
    found.validate(full=True)
    assert found.type == decoder.type
    return ["corrupt" if each else row for row, each in zip(found.to_pylist(), bad.to_pylist(), strict=True)]


def typed(registry: RegistryServer, *topics: str, **options: str) -> Typed:
    parsed = ValueOptions.parse({"valueFormat": "avro", "schemaRegistry.url": registry.url, **options})
    assert parsed is not None
    return plan(parsed, topics or None)


def read(found: Typed, values: list[bytes | None]) -> list[tuple[Any, Any]]:
    """Value and corrupt record of each."""
    batch = pa.record_batch({"value": pa.array(values, pa.binary())})
    made = found.batch(batch, ("value", "_corrupt_record"))
    return [tuple(row.values()) for row in made.to_pylist()]


def serializer(registry: RegistryServer, topic: str, schema: Any) -> Any:
    """Return Confluent's serializer for a topic, as a function that takes a value."""
    client = SchemaRegistryClient({"url": registry.url})
    write = AvroSerializer(client, json.dumps(schema))
    context = SerializationContext(topic, MessageField.VALUE)
    return lambda datum: write(datum, context)


def decimal_of(precision: int, scale: int, kind: str = "bytes") -> dict[str, Any]:
    named = {} if kind == "bytes" else {"name": "Fixed", "size": 20}
    return {"type": kind, "logicalType": "decimal", "precision": precision, "scale": scale} | named


def by_ids(*schemas: Any) -> Lookup:
    """Return the look-up of a registry that has these schemas, with the ids 1, 2 and so on."""
    known = {
        at: each if isinstance(each, RegisteredSchema) else RegisteredSchema(json.dumps(each), "AVRO")
        for at, each in enumerate(schemas, 1)
    }

    def lookup(ids: Collection[int]) -> dict[int, RegisteredSchema]:
        return {each: known[each] for each in ids if each in known}

    return lookup
