"""Test Avro to structs with schemas from a registry over HTTP: Confluent's serializer, references, failures."""

from __future__ import annotations

import io
import json
import ssl
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from peers.cache import require
from peers.security import certificates
from spark_kafkalog.options.parsing import OptionsError
from spark_kafkalog.options.source_options import SourceOptions
from spark_kafkalog.values.avro.from_avro import AvroDecoder
from spark_kafkalog.values.option_names import NAMES
from spark_kafkalog.values.registry.schema_registry import RegistryConfig, SchemaRegistry, SchemaRegistryError
from spark_kafkalog.values.value_options import ValueOptions
from spark_kafkalog.values.value_types import plan
from tests.spark_kafkalog.values.avro.avro_values import (
    DDL,
    EVERYTHING,
    READ,
    SIMPLE,
    WRITTEN,
    by_ids,
    decimal_of,
    decode,
    read,
    serializer,
    typed,
    written,
)
from tests.spark_kafkalog.values.registry_server import RegistryServer

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
    """Fields that Spark has no type for are skipped; too deep records are corrupt, and the process lives on."""
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
    number_of_many_bytes = b"\x80" * 10 + b"\x00" + node[1:]
    values = [written(TREE, small), begins * 300_000, begins * 300_000 + node, number_of_many_bytes, node]
    row = {"price": price}
    assert read(found, [b"\0" + number + value for value in values]) == [
        ({"id": 12, **row}, None),
        *((None, b"\0" + number + value) for value in values[1:4]),
        ({"id": 7, **row}, None),
    ]


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
    decoder = AvroDecoder(json.dumps(reader), framed=True, lookup=by_ids(found))
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
    assert pauses == [pytest.approx(each, rel=0.2) for each in (0.1, 0.2, 0.4)]
    registry.failures[:] = [500] * 4
    with pytest.raises(SchemaRegistryError, match=f"{registry.url}/schemas/ids/1 answered 500"):
        client.by_id(1)
    pauses.clear()
    patient = SchemaRegistry(RegistryConfig((registry.url,), retries=15), pauses.append)
    registry.failures[:] = [500] * 15
    assert patient.by_id(1) is not None
    assert pauses[4:8] == [pytest.approx(each, rel=0.2) for each in (1.6, 3.2, 5.0, 5.0)]
    assert max(pauses) <= 5.0
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


def test_a_redirect_to_another_server_gets_no_password(registry: RegistryServer) -> None:
    registry.register("t-value", SIMPLE)
    with RegistryServer() as first:
        first.redirect = registry.url.replace("//", "//other:s3cret@")
        message = rf"{first.url}/schemas/ids/1 leads to {registry.url}/schemas/ids/1, .*set schemaRegistry\.url"
        with pytest.raises(SchemaRegistryError, match=message):
            SchemaRegistry(RegistryConfig((first.url,), "user:password")).by_id(1)
        assert not registry.requests
        first.redirect = registry.url
        assert SchemaRegistry(RegistryConfig((first.url,))).by_id(1) is not None


def test_a_redirect_on_the_same_server_gets_the_password() -> None:
    with RegistryServer("user:password") as server:
        server.register("t-value", SIMPLE)
        server.moved = "/old"
        assert SchemaRegistry(RegistryConfig((f"{server.url}/old",), "user:password")).by_id(1) is not None


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


def test_a_password_in_an_address_is_not_shown() -> None:
    options = ValueOptions.parse({"valueFormat": "avro", "schemaRegistry.url": "http://user:of-the-registry@host:1"})
    assert "of-the-registry" not in repr(options)


def test_certificates_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ssl.SSLContext] = []
    make = ssl.create_default_context

    def noted(*given: Any, **named: Any) -> ssl.SSLContext:
        made.append(make(*given, **named))
        return made[-1]

    monkeypatch.setattr(ssl, "create_default_context", noted)
    client = SchemaRegistry(RegistryConfig(("https://127.0.0.1:1",), retries=2), pause=lambda _: None)
    for _ in range(2):
        with pytest.raises(SchemaRegistryError, match="cannot be reached"):
            client.by_id(1)
    assert len(made) == 1


@pytest.mark.parametrize(("text", "reason"), [(None, "No such file"), ("no PEM", "no certificate in PEM")])
def test_certificates_that_cannot_be_used(tmp_path: Path, text: str | None, reason: str) -> None:
    file = tmp_path / "ca.pem"
    if text is not None:
        file.write_text(text)
    client = SchemaRegistry(RegistryConfig(("https://127.0.0.1:1",), ca_file=str(file)))
    message = rf"schemaRegistry\.ssl\.ca\.location={file}: cannot be used: .*{reason}"
    with pytest.raises(SchemaRegistryError, match=message):
        client.by_id(1)


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
        ({"valueFormat": "json", "valueSchema": "id INT", "timeZone": "CEST"}, "timeZone: no time zone 'CEST' on this"),
        ({"valueFormat": "json", "valueSchema": "id INT", "timeZone": "../x"}, "timeZone: no time zone"),
        (
            {"valueFormat": "avro", "valueSchema": "{}", "timeZone": "UTC"},
            "timeZone has no meaning with valueFormat=avro",
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


@pytest.mark.parametrize("character", "/?#")
def test_a_password_that_an_address_cannot_have(character: str) -> None:
    """It would be taken for a part of the host and of the path, and messages would show it."""
    password = f"s3cret{character}s3cret"
    options = {"valueFormat": "avro", "schemaRegistry.url": f"http://a:8081,http://me:{password}@b:8081"}
    with pytest.raises(
        OptionsError, match=r"the password in an address .* schemaRegistry.basic.auth.user.info"
    ) as told:
        ValueOptions.parse(options)
    assert "s3cret" not in str(told.value)


@pytest.mark.parametrize(
    "address", ["http://a:8081/x:y@z", "http://me:p@a:8081/x@y", "http://[::1]:8081/x@y", "http://a"]
)
def test_addresses_without_such_a_password(address: str) -> None:
    found = ValueOptions.parse({"valueFormat": "avro", "schemaRegistry.url": address})
    assert found is not None
    assert found.registry is not None
    assert found.registry.urls == (address,)


def test_no_password_is_told_of_an_answer_without_what_is_needed() -> None:
    gone = {"name": "a", "subject": "gone", "version": 1}
    with RegistryServer("me:s3cret") as server:
        server.schemas = {
            1: {"no": "schema"},
            2: {"schema": "x", "references": [{}]},
            3: {"schema": "x", "references": [gone]},
        }
        client = SchemaRegistry(RegistryConfig((server.url.replace("//", "//me:s3cret@"),)))
        messages = []
        for number in server.schemas:
            with pytest.raises(SchemaRegistryError) as raised:
                client.by_id(number)
            messages.append(str(raised.value))
        assert messages == [
            f"schema registry {server.url}: an answer without a schema",
            f"schema registry {server.url}: a reference without subject and version: {{}}",
            f"schema registry {server.url}: gone version 1, which a schema refers to, is not there",
        ]


def test_no_password_is_told_of_addresses_that_are_refused() -> None:
    with pytest.raises(OptionsError, match=r"schemaRegistry\.url: expected http") as raised:
        ValueOptions.parse({"valueFormat": "avro", "schemaRegistry.url": "http://me:s3cret@a,me:s3cret@b"})
    assert "s3cret" not in str(raised.value)


def test_these_options_are_known(caplog: pytest.LogCaptureFixture) -> None:
    options = dict.fromkeys(NAMES, "x") | {"subscribe": "t", "kafka.bootstrap.servers": "h:1"}
    SourceOptions.parse(options)
    assert caplog.text == ""
    SourceOptions.parse(options | {"valueFormats": "x"})
    assert "Option valueFormats is not known and has no effect; did you mean valueFormat?" in caplog.text


def test_no_options() -> None:
    assert ValueOptions.parse({"subscribe": "t"}) is None
