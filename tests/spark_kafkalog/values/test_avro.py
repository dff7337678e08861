"""Test Avro to structs: Confluent's serializer and fastavro's writer, with schemas from a registry over HTTP."""

from __future__ import annotations

import datetime
import io
import json
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import given, settings
from hypothesis import strategies as st

from peers import certificates
from peers.cache import require
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.values.from_avro import AvroDecoder, AvroSchemaError, spark_type
from spark_kafkalog.values.option_names import NAMES
from spark_kafkalog.values.schema_registry import RegisteredSchema, RegistryConfig, SchemaRegistry, SchemaRegistryError
from spark_kafkalog.values.typed import SCHEMAS, Typed
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


@pytest.fixture
def registry() -> Iterator[RegistryServer]:
    # What a process remembers of an address is of another server, where a port is used again.
    SCHEMAS.clear()
    with RegistryServer() as server:
        yield server


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
    """What Confluent's serializer writes for a topic."""
    client = SchemaRegistryClient({"url": registry.url})
    write = AvroSerializer(client, json.dumps(schema))
    context = SerializationContext(topic, MessageField.VALUE)
    return lambda datum: write(datum, context)


# ---------------------------------------------------------------------------------------------- plain records


def test_every_type() -> None:
    text = json.dumps(EVERYTHING)
    assert spark_type(text).simpleString() == DDL
    assert decode(AvroDecoder(text, framed=False), [written(EVERYTHING, WRITTEN), None]) == [READ, None]


def test_what_is_no_record() -> None:
    good = written(SIMPLE, {"id": 7, "name": "x"})
    values = [good, b"", good[:-1], good + b"\0", b"\x00", b"\xff" * 20, b"\x02\x02\x80", good]
    row = {"id": 7, "name": "x"}
    expected = [row, *["corrupt"] * 6, row]
    assert decode(AvroDecoder(json.dumps(SIMPLE), framed=False), values) == expected


@settings(max_examples=300)
@given(st.lists(st.binary(max_size=60), max_size=10), st.booleans())
def test_random_bytes_never_raise(values: list[bytes], framed: bool) -> None:
    decoder = AvroDecoder(json.dumps(EVERYTHING), framed=framed)
    for value, row in zip(values, decode(decoder, list(values)), strict=True):
        assert row == "corrupt" or (value and isinstance(row, dict))


@given(st.binary(max_size=40), st.integers(0, 200), st.integers(0, 7))
def test_damaged_records_never_raise(tail: bytes, at: int, bit: int) -> None:
    data = bytearray(written(EVERYTHING, WRITTEN))
    data[at % len(data)] ^= 1 << bit
    decoder = AvroDecoder(json.dumps(EVERYTHING), framed=False)
    good = written(EVERYTHING, WRITTEN)
    rows = decode(decoder, [good, bytes(data) + tail, bytes(data), good])
    assert [rows[0], rows[3]] == [READ, READ]


def test_a_decimal_that_does_not_fit_is_one_bad_record() -> None:
    schema = json.dumps(EVERYTHING)
    wide = json.loads(schema)
    next(each for each in wide["fields"] if each["name"] == "dec")["type"]["precision"] = 20
    good = written(EVERYTHING, WRITTEN)
    bad = written(wide, WRITTEN | {"dec": Decimal("123456789012345678.90")})
    assert decode(AvroDecoder(schema, framed=False), [good, bad, good]) == [READ, "corrupt", READ]


def test_a_decimal_of_very_many_digits_costs_no_time() -> None:
    """Made as fastavro makes them, a million bytes of digits take minutes, and four times as many the square."""
    schema = json.dumps({"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_of(10, 2)}]})
    as_bytes = {"type": "record", "name": "R", "fields": [{"name": "d", "type": "bytes"}]}
    numbers = [12345, -(10**10) + 1, 10**10, -(10**10), 1 << (8 * 4_000_000)]
    values: list[bytes | None] = [
        written(as_bytes, {"d": number.to_bytes(4_000_001, "big", signed=True)}) for number in numbers
    ]
    decoder = AvroDecoder(schema, framed=False)
    expected = [{"d": Decimal("123.45")}, {"d": Decimal("-99999999.99")}, *["corrupt"] * 3]
    assert decode(decoder, [*values, written(as_bytes, {"d": b""})]) == [*expected, {"d": Decimal("0.00")}]


def decimal_of(precision: int, scale: int, kind: str = "bytes") -> dict[str, Any]:
    named = {} if kind == "bytes" else {"name": "Fixed", "size": 20}
    return {"type": kind, "logicalType": "decimal", "precision": precision, "scale": scale} | named


@pytest.mark.parametrize("kind", ["bytes", "fixed"])
def test_decimals_of_other_writers(kind: str) -> None:
    """The writer's scale counts; what is lost in the reader's makes a bad record."""
    reader = {"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_of(10, 2, kind)}]}
    writer = {"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_of(8, 4, kind)}]}
    lookup = {1: RegisteredSchema(json.dumps(writer), "AVRO")}.get
    values = [b"\0\0\0\0\1" + written(writer, {"d": Decimal(text)}) for text in ("1.2300", "1.2345")]
    decoder = AvroDecoder(json.dumps(reader), framed=True, lookup=lookup)
    assert decode(decoder, list(values)) == [{"d": Decimal("1.23")}, "corrupt"]


def test_other_users_of_fastavro_keep_their_decimals() -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "d", "type": decimal_of(10, 2)}]}
    AvroDecoder(json.dumps(schema), framed=False)
    datum = {"d": Decimal("1.25")}
    assert fastavro.schemaless_reader(io.BytesIO(written(schema, datum)), schema, None) == datum


TREE = {
    "type": "record",
    "name": "Node",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "price", "type": decimal_of(10, 2)},
        {"name": "next", "type": ["null", "Node"]},
        {"name": "more", "type": {"type": "array", "items": "Node"}},
    ],
}


def test_writers_whose_records_contain_themselves(registry: RegistryServer) -> None:
    """What Spark has no type for is passed over; how deep it goes is bounded, and the process lives on."""
    number = registry.register("trees", TREE).to_bytes(4, "big")
    fields = TREE["fields"][:2]
    found = typed(registry, valueSchema=json.dumps({"type": "record", "name": "Node", "fields": fields}))
    price = Decimal("1.25")
    tree: dict[str, Any] = {"id": 0, "price": price, "next": None, "more": []}
    for each in range(1, 40):
        tree = {"id": each, "price": price, "next": tree if each % 2 else None, "more": [tree] * (each % 3)}
        if each == 12:
            small = tree
    node = written(TREE, {"id": 7, "price": price, "next": None, "more": []})
    begins = node[:-2] + b"\x02"
    values = [written(TREE, small), begins * 300_000, begins * 300_000 + node, node]
    row = {"price": price}
    assert read(found, [b"\0" + number + value for value in values]) == [
        ({"id": 12, **row}, None),
        *((None, b"\0" + number + value) for value in values[1:3]),
        ({"id": 7, **row}, None),
    ]


NOTHING = {"type": "record", "name": "E", "fields": []}


@pytest.mark.parametrize(
    "types",
    [
        [{"type": "array", "items": {"type": "null"}}],
        [NOTHING, {"type": "array", "items": "E"}],
        [
            {"type": "fixed", "name": "E", "size": 0},
            ["null", {"type": "map", "values": {"type": "array", "items": "E"}}],
        ],
        [
            {
                "type": "array",
                "items": {"type": "record", "name": "E", "fields": [{"name": "f", "type": {"type": "null"}}]},
            }
        ],
        [
            NOTHING,
            {"type": "array", "items": {"type": "record", "name": "F", "fields": [{"name": "f", "type": "E"}]}},
        ],
    ],
    ids=["null", "name", "fixed", "field", "field of name"],
)
def test_arrays_of_items_that_take_no_bytes(types: list[Any]) -> None:
    """A few bytes would make thousands of millions of them, of a writer's schema too."""
    fields = [{"name": f"f{at}", "type": each} for at, each in enumerate(types)]
    writer = json.dumps({"type": "record", "name": "R", "fields": [*fields, {"name": "i", "type": "int"}]})
    with pytest.raises(AvroSchemaError, match="an array of items that take no bytes"):
        spark_type(writer)
    reader = json.dumps({"type": "record", "name": "R", "fields": [{"name": "i", "type": "int"}]})
    decoder = AvroDecoder(reader, framed=True, lookup={1: RegisteredSchema(writer, "AVRO")}.get)
    assert decode(decoder, [b"\0\0\0\0\1" + b"\xfe\xff\xff\xff\x0f\0"]) == ["corrupt"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "no Avro schema"),
        ('"string"', "a record is expected"),
        ('{"type":"record","name":"R","fields":[]}', "the record has no fields"),
        ('{"type":"record","name":"R","fields":[{"name":"r","type":["null","R"]}]}', "R contains itself"),
        ('{"type":"record","name":"R","fields":[{"name":"r","type":"Unknown"}]}', "no Avro schema: UnknownType"),
        ('{"type":"record","name":"R","fields":[{"name":"r","type":["int","string"]}]}', "a union of int, string"),
        (
            json.dumps({"type": "record", "name": "R", "fields": [{"name": "r", "type": LONG_DECIMAL}]}),
            "does not fit in Spark's 38 digits",
        ),
        (
            '{"type":"record","name":"R","fields":[{"name":"r","type":{"type":"array","items":"null"}}]}',
            "an array of items that take no bytes",
        ),
    ],
)
def test_schemas_that_spark_has_nothing_for(schema: str, message: str) -> None:
    with pytest.raises(AvroSchemaError, match=message):
        spark_type(schema)


# ---------------------------------------------------------------------------------------------- with a registry


def test_confluents_serializer(registry: RegistryServer) -> None:
    write = serializer(registry, "everything", EVERYTHING)
    values = [write(WRITTEN), None, write(WRITTEN)]
    found = typed(registry, "everything")
    assert found.value is not None
    assert found.value.simpleString() == DDL
    assert read(found, values) == [(READ, None), (None, None), (READ, None)]


def test_writers_of_other_schemas(registry: RegistryServer) -> None:
    """Resolved to the latest: a field that is new has its default, one that is gone is dropped, int becomes long."""
    first = {
        "type": "record",
        "name": "User",
        "fields": [{"name": "id", "type": "int"}, {"name": "old", "type": "string"}],
    }
    old = serializer(registry, "users", first)({"id": 1, "old": "x"})
    new = serializer(registry, "users", SIMPLE)({"id": 2, "name": "n"})
    expected = [({"id": 1, "name": None}, None), ({"id": 2, "name": "n"}, None)]
    assert read(typed(registry, "users"), [old, new]) == expected
    own = json.dumps({"type": "record", "name": "User", "fields": [{"name": "id", "type": "double"}]})
    assert read(typed(registry, valueSchema=own), [old, new]) == [({"id": 1.0}, None), ({"id": 2.0}, None)]
    other = json.dumps({"type": "record", "name": "User", "fields": [{"name": "id", "type": "boolean"}]})
    assert read(typed(registry, valueSchema=other), [old]) == [(None, old)]


def test_frames_that_are_none(registry: RegistryServer) -> None:
    write = serializer(registry, "users", SIMPLE)
    good = write({"id": 1, "name": None})
    registry.register("proto-value", "message M {}", "PROTOBUF")
    registry.register("broken-value", "{")
    values = [
        b"",
        b"\0",
        good[:5],
        b"\1" + good[1:],
        b"\0\0\0\x03\xe7" + good[5:],
        b"\0\0\0\0\2x",
        b"\0\0\0\0\3x",
        good,
    ]
    found = read(typed(registry, "users"), list(values))
    assert found == [*((None, value) for value in values[:-1]), ({"id": 1, "name": None}, None)]


def test_schemas_are_asked_for_once(registry: RegistryServer) -> None:
    write = serializer(registry, "users", SIMPLE)
    values = [write({"id": n, "name": None}) for n in range(100)]
    registry.requests.clear()
    found = typed(registry, "users")
    for _ in range(3):
        read(found, values)
    # By another task of the same process, too.
    read(typed(registry, "users"), values)
    latest = "/subjects/users-value/versions/latest"
    assert registry.requests == [latest, "/schemas/ids/1", latest]


def test_references(registry: RegistryServer) -> None:
    point = {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "x", "type": "int"}]}
    registry.register("point", point)
    line = {
        "type": "record", "name": "Line",
        "fields": [{"name": "a", "type": "geo.Point"}, {"name": "b", "type": ["null", "geo.Point"]}],
    }  # fmt: skip
    number = registry.register("lines-value", line, None, [{"name": "geo.Point", "subject": "point", "version": 1}])
    named: dict[str, Any] = {}
    fastavro.parse_schema(point, named_schemas=named)
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(line, named_schemas=named), {"a": {"x": 1}, "b": None})
    found = typed(registry, "lines")
    assert found.value is not None
    assert found.value.simpleString() == "struct<a:struct<x:int>,b:struct<x:int>>"
    value = b"\0" + number.to_bytes(4, "big") + stream.getvalue()
    assert read(found, [value]) == [({"a": {"x": 1}, "b": None}, None)]


def test_references_that_many_share_are_asked_for_once(registry: RegistryServer) -> None:
    """Each of these refers to the one before twice: a thousand million ways lead to the first."""
    first = {"type": "record", "name": "T0", "fields": [{"name": "x", "type": "int"}]}
    registry.register("t0", first)
    for each in range(1, 15):
        before = f"T{each - 1}"
        fields = [{"name": name, "type": ["null", before]} for name in "ab"]
        schema = {"type": "record", "name": f"T{each}", "fields": fields}
        refers = [{"name": before, "subject": before.lower(), "version": 1}]
        number = registry.register(f"t{each}", schema, None, refers * 2)
    client = SchemaRegistry(RegistryConfig((registry.url,)))
    found = client.by_id(number)
    assert found is not None
    assert len(registry.requests) == 15
    reader = {"type": "record", "name": "T14", "fields": [{"name": "c", "type": "int", "default": 7}]}
    decoder = AvroDecoder(json.dumps(reader), framed=True, lookup={1: found}.get)
    assert decode(decoder, [b"\0\0\0\0\1\0\0"]) == [{"c": 7}]


@pytest.mark.parametrize("reference", [{"name": "x"}, "x", {"subject": "s", "version": "first"}, None])
def test_references_that_are_none(registry: RegistryServer, reference: Any) -> None:
    registry.register("t-value", SIMPLE, None, [reference])
    with pytest.raises(SchemaRegistryError, match=f"{registry.url}: a reference without subject and version"):
        SchemaRegistry(RegistryConfig((registry.url,))).by_id(1)


def test_a_server_that_is_no_registry(registry: RegistryServer) -> None:
    """Else each record would be a bad one, and nobody would be told why."""
    registry.register("t-value", SIMPLE)
    wrong = RegistryConfig((f"{registry.url}/elsewhere",))
    message = f"{registry.url}/elsewhere/schemas/ids/1 answered 404 .*check schemaRegistry.url"
    with pytest.raises(SchemaRegistryError, match=message):
        SchemaRegistry(wrong).by_id(1)
    with pytest.raises(SchemaRegistryError, match=r"check schemaRegistry\.url"):
        SchemaRegistry(wrong).latest("t-value")


def test_framed_values_without_a_registry() -> None:
    parsed = ValueOptions.parse({"valueFormat": "avro", "valueSchema": json.dumps(SIMPLE), "avroFraming": "confluent"})
    assert parsed is not None
    value = b"\0\0\0\0\x09" + written(SIMPLE, {"id": 1, "name": "x"})
    assert read(plan(parsed, None), [value, value[5:]]) == [({"id": 1, "name": "x"}, None), (None, value[5:])]


def test_a_registry_that_fails_for_a_while(registry: RegistryServer) -> None:
    registry.register("t-value", SIMPLE)
    pauses: list[float] = []
    client = SchemaRegistry(RegistryConfig((registry.url,), retries=3), pauses.append)
    registry.failures[:] = [500, 503, 429]
    found = client.by_id(1)
    assert found is not None
    assert json.loads(found.text) == SIMPLE
    assert pauses == [0.1, 0.2, 0.4]
    registry.failures[:] = [500] * 4
    with pytest.raises(SchemaRegistryError, match=f"{registry.url}/schemas/ids/1 answered 500"):
        client.by_id(1)
    assert client.by_id(99) is None
    assert client.latest("nobody") is None


def test_the_next_address_is_asked(registry: RegistryServer) -> None:
    registry.register("t-value", SIMPLE)
    client = SchemaRegistry(RegistryConfig(("http://127.0.0.1:1", registry.url), retries=0))
    assert client.latest("t-value") is not None
    nobody = SchemaRegistry(RegistryConfig(("http://127.0.0.1:1",), retries=1), lambda _: None)
    with pytest.raises(SchemaRegistryError, match=r"http://127\.0\.0\.1:1/schemas/ids/1 cannot be reached"):
        nobody.by_id(1)


@pytest.mark.parametrize("in_url", [True, False])
def test_authentication(in_url: bool) -> None:
    with RegistryServer("user:pass:word") as server:
        server.register("t-value", SIMPLE)
        address = server.url.replace("http://", "http://user:pass:word@") if in_url else server.url
        user_info = None if in_url else "user:pass:word"
        assert SchemaRegistry(RegistryConfig((address,), user_info)).latest("t-value") is not None
        with pytest.raises(SchemaRegistryError, match=r"answered 401 .*basic\.auth\.user\.info") as raised:
            SchemaRegistry(RegistryConfig((server.url,), "user:wrong")).latest("t-value")
        assert "wrong" not in str(raised.value)
        assert "wrong" not in repr(RegistryConfig((server.url,), "user:wrong"))


@pytest.mark.usefixtures("processes")
def test_https(tmp_path: Path) -> None:
    require(certificates.missing())
    made = certificates.make_certificates(tmp_path)
    with RegistryServer(certificate=made.server) as server:
        server.register("t-value", SIMPLE)
        found = SchemaRegistry(RegistryConfig((server.url,), ca_file=str(made.authority))).latest("t-value")
        assert found is not None
        for ca_file in (None, str(made.stranger)):
            distrusting = SchemaRegistry(RegistryConfig((server.url,), retries=0, ca_file=ca_file))
            with pytest.raises(SchemaRegistryError, match="CERTIFICATE_VERIFY_FAILED"):
                distrusting.latest("t-value")


def test_a_registry_that_cannot_be_asked_is_not_the_records_fault(registry: RegistryServer) -> None:
    value = serializer(registry, "users", SIMPLE)({"id": 1, "name": None})
    found = typed(registry, "users", **{"schemaRegistry.retries": "0"})
    registry.failures[:] = [500]
    with pytest.raises(SchemaRegistryError):
        read(found, [value])


def test_planning_from_topics(registry: RegistryServer) -> None:
    registry.register("a-value", SIMPLE)
    registry.register("b-value", SIMPLE)
    registry.register("c-value", EVERYTHING)
    registry.register("j-value", "{}", "JSON")
    assert typed(registry, "a", "b").value == typed(registry, "a").value
    for topics, message in [
        (("a", "c"), "their values have different schemas"),
        (("x",), "there is no subject x-value"),
        ((), "topics must be named by subscribe or assign"),
        (("j",), "schema of j-value: it is of type JSON"),
    ]:
        with pytest.raises(OptionsError, match=message):
            typed(registry, *topics)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valueFormat": "protobuf"}, "valueFormat: expected one of json, avro, got 'protobuf'"),
        ({"valueSchema": "id INT"}, "valueSchema needs valueFormat"),
        ({"schemaRegistry.url": "http://x"}, r"schemaRegistry.url needs valueFormat"),
        ({"valueFormat": "json", "avroFraming": "none"}, "avroFraming has no meaning with valueFormat=json"),
        ({"valueFormat": "json", "valueSchema": "id NUMBER"}, "valueSchema: .*expected a type"),
        ({"valueFormat": "json", "valueSchema": '{"type":"struct"}'}, "valueSchema: no schema in Spark's JSON form"),
        ({"valueFormat": "json", "valueSchema": "id INT", "columnNameOfCorruptRecord": " "}, "a name is needed"),
        (
            {"valueFormat": "json", "valueSchema": "id INT", "columnNameOfCorruptRecord": "key"},
            "the source has a column 'key' already",
        ),
        ({"valueFormat": "avro"}, r"needs valueSchema \(an Avro schema\) or schemaRegistry.url"),
        ({"valueFormat": "avro", "schemaRegistry.url": "file:///etc"}, "expected http:// or https:// addresses"),
        ({"valueFormat": "avro", "valueSchema": "{}", "schemaRegistry.retries": "1"}, "needs schemaRegistry.url"),
        ({"valueFormat": "avro", "valueSchema": "{}", "avroFraming": "x"}, "avroFraming: expected one of"),
        (
            {"valueFormat": "avro", "schemaRegistry.url": "http://x", "schemaRegistry.basic.auth.user.info": "me"},
            "expected user:password",
        ),
    ],
)
def test_bad_options_are_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        ValueOptions.parse(options)


def test_these_options_are_known(caplog: pytest.LogCaptureFixture) -> None:
    options = dict.fromkeys(NAMES, "x") | {"subscribe": "t", "kafka.bootstrap.servers": "h:1"}
    SourceOptions.parse(options)
    assert caplog.text == ""
    SourceOptions.parse(options | {"valueFormats": "x"})
    assert "Option valueFormats is not known and has no effect; did you mean valueFormat?" in caplog.text


def test_no_options() -> None:
    assert ValueOptions.parse({"subscribe": "t"}) is None
