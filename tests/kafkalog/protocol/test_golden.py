"""Test that Apache Kafka's bytes of every message and version are read as its values and written the same."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple
from uuid import UUID

import pytest

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import (
    decode_message,
    decode_request_header,
    decode_response,
    encode_message,
    encode_request,
    encode_response,
)
from kafkalog.protocol.errors import ErrorCode, UnsupportedVersionError, error_for
from kafkalog.protocol.schema import BOOLEAN, UUID_, Field, Request, Response, Scalar, Struct
from peers import MissingPeerError, require
from peers.toolchains import java, maven
from tests.kafkalog.protocol.golden.make_messages import CLIENT, NEWER_CLIENT, read_data, write_messages
from tests.kafkalog.protocol.support import (
    class_name,
    is_own,
    message_classes,
    sample,
    sample_scalar,
    structs_of,
    versions,
)

_CORRELATION_ID = 77
_CLIENT_ID = "client"


class Golden(NamedTuple):
    version: int
    fill: str
    values: Mapping[str, Any]
    header: bytes
    body: bytes


def _rows(kind: str) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in read_data().splitlines()]
    return [row for row in rows if kind in row]


@cache
def _golden() -> dict[str, list[Golden]]:
    found: dict[str, list[Golden]] = {}
    for row in _rows("message"):
        header, body = bytes.fromhex(row["header"]), bytes.fromhex(row["body"])
        found.setdefault(row["message"], []).append(Golden(row["version"], row["fill"], row["values"], header, body))
    return found


def _build(cls: type[Struct], values: Mapping[str, Any]) -> Any:
    fields = {field.name: field for field in cls.fields}
    assert values.keys() <= fields.keys()
    return cls(**{name: _value(fields[name], value) for name, value in values.items()})


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return None
    return [_element(field.type, one) for one in value] if field.is_array else _element(field.type, value)


def _element(of: Scalar | type[Struct], value: Any) -> Any:
    if not isinstance(of, Scalar):
        return _build(of, value)
    if of is UUID_:
        return UUID(hex=value)
    return bytes.fromhex(value) if of.name in ("bytes", "records") else value


def test_golden_data_has_every_message_and_version() -> None:
    # The defaults of a few messages hold null where the oldest versions have none; Kafka's classes refuse those too.
    for cls in message_classes():
        for fill in ("full", "nulls", "least", "long"):
            found = [golden.version for golden in _golden()[cls.__name__] if golden.fill == fill]
            assert found == list(versions(cls)), f"{cls.__name__} {fill}"
    assert _golden().keys() == {cls.__name__ for cls in message_classes()}


@pytest.mark.parametrize("cls", message_classes(), ids=class_name)
def test_bytes_are_those_of_kafka(cls: type[Request] | type[Response]) -> None:
    for golden in _golden()[cls.__name__]:
        version, place = golden.version, f"version {golden.version}, {golden.fill}"
        msg = _build(cls, golden.values)
        assert encode_message(msg, version).hex() == golden.body.hex(), place
        decoded, end = decode_message(cls, version, golden.body)
        assert (decoded, end) == (msg, len(golden.body)), place
        assert encode_message(decoded, version) == golden.body, place


@pytest.mark.parametrize("cls", message_classes(), ids=class_name)
def test_headers_are_those_of_kafka(cls: type[Request] | type[Response]) -> None:
    for golden in _golden()[cls.__name__]:
        msg = _build(cls, golden.values)
        size = (len(golden.header) + len(golden.body)).to_bytes(4, "big")
        frame = size + golden.header + golden.body
        if isinstance(msg, Request):
            assert encode_request(msg, golden.version, _CORRELATION_ID, _CLIENT_ID) == frame
            header, start = decode_request_header(frame, 4)
            key = ApiKey(cls.api_key)
            client_id = _CLIENT_ID if key.request_header_version(golden.version) else None
            assert header == (key, golden.version, _CORRELATION_ID, client_id)
            assert start == 4 + len(golden.header)
        else:
            assert b"".join(encode_response(msg, golden.version, _CORRELATION_ID)) == frame  # type: ignore[arg-type]
            request = next(of for of in message_classes() if issubclass(of, Request) and of.response_type is cls)
            assert decode_response(request, golden.version, frame[4:]) == (_CORRELATION_ID, msg)


_NAMED_APART = {
    "AlterClientQuotasEntity": "EntityData",
    "AlterClientQuotasEntry": "EntryData",
    "AlterClientQuotasOp": "OpData",
    "AlterClientQuotasResult": "EntryData",
    "DescribeClientQuotasComponent": "ComponentData",
    "DescribeClientQuotasEntity": "EntityData",
    "DescribeClientQuotasEntry": "EntryData",
    "DescribeClientQuotasValue": "ValueData",
}
"""Structures whose names in Kafka say nothing outside their message."""


def _structs(message: str) -> dict[str, type[Struct]]:
    """A message's structures by Kafka's names."""
    (cls,) = (cls for cls in message_classes() if cls.__name__ == message)
    return {_NAMED_APART.get(struct.__name__, struct.__name__): struct for struct in structs_of(cls, own=False)}


def test_defaults_are_those_of_kafka() -> None:
    checked = set()
    for row in _rows("defaults"):
        cls = _structs(row["defaults"])[row["struct"]]
        assert list(row["values"]) == [field.name for field in cls.fields if not is_own(field)]
        assert _build(cls, row["values"]) == cls(), row
        checked.add(cls)
    assert checked == {struct for cls in message_classes() for struct in structs_of(cls, own=False)}


def _find(value: Any, cls: type[Struct]) -> Any:
    """The first instance of the class in a message, or None."""
    if isinstance(value, cls):
        return value
    inner = [getattr(value, field.name) for field in value.fields] if isinstance(value, Struct) else value
    found = [_find(one, cls) for one in inner] if isinstance(inner, list) else []
    return next((one for one in found if one is not None), None)


def test_values_that_a_version_lacks_are_treated_as_by_kafka() -> None:
    count = 0
    for row in _rows("absent"):
        version, structs = row["version"], _structs(row["absent"])
        cls = structs[row["struct"]]
        absent = {field.name: field for field in cls.fields if version not in field.versions and not is_own(field)}
        assert absent.keys() == {*row["ignored"], *row["refused"]}, row
        for name, field in absent.items():
            msg = sample(structs[row["absent"]], version)
            plain = encode_message(msg, version)
            inner = _find(msg, cls)
            if inner is None:
                continue  # the whole structure is one that the version lacks
            setattr(inner, name, _other_than_default(field, structs[row["absent"]]))
            if name in row["refused"]:
                with pytest.raises(UnsupportedVersionError, match=f"{name} has another value"):
                    encode_message(msg, version)
            else:
                assert encode_message(msg, version) == plain, (row, name)
            count += 1
    assert count > 300


def _other_than_default(field: Field, message: Any) -> Any:
    if field.type is BOOLEAN:
        return not field.default
    of = field.type
    one = sample_scalar(of, 77) if isinstance(of, Scalar) else sample(of, message.max_version)
    return [one] if field.is_array else one


def test_error_codes_are_those_of_kafka() -> None:
    rows = _rows("error")
    assert len(rows) > 100
    for row in rows:
        code = ErrorCode[row["error"]]
        assert (code, code.retriable) == (row["code"], row["retriable"]), row
        if code != ErrorCode.NONE:
            error = error_for(row["code"])
            assert error.code is code
            assert error.message
    # What a newer broker says is known by name too, and no two names share a code.
    assert len(ErrorCode) == len(ErrorCode.__members__) >= len(rows)


def test_api_versions_are_those_of_kafka() -> None:
    rows = _rows("api")
    assert len(rows) > 50
    for row in rows:
        api = ApiKey[row["api"]]
        newer = api in (ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.CONSUMER_GROUP_DESCRIBE)
        assert (api, [api.min_version, api.max_version - newer]) == (row["key"], row["versions"]), row


@pytest.mark.peer
def test_golden_data_is_what_java_writes() -> None:
    require(java.missing())
    try:
        maven.classpath(CLIENT)
        maven.classpath(NEWER_CLIENT)
    except MissingPeerError as error:
        require(str(error))
    assert write_messages().splitlines() == read_data().splitlines()
