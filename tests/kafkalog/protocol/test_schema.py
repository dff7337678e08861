"""Tests of the notation of the message tables, and of the errors for codes."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from kafkalog.protocol import errors
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import decode_message, encode_message
from kafkalog.protocol.encoder import generate_encoder
from kafkalog.protocol.error_codes import ErrorCode
from kafkalog.protocol.errors import KafkaError, UnknownServerError, error_for
from kafkalog.protocol.generator import SchemaError
from kafkalog.protocol.messages.fetch import FetchResponse, LeaderIdAndEpoch, PartitionData
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kafkalog.protocol.schema import (
    INT32,
    Message,
    Struct,
    Versions,
    array,
    float64,
    int32,
    records_,
    string,
    struct,
    uint16,
    uint32,
)
from tests.kafkalog.protocol.support import message_classes, structs_of


class Inner(Struct):
    numbers: list[int] | None = array(INT32, "0+", nullable="2+")


class Sample(Message, versions="0-3", flexible="2+"):
    """Types and combinations that no table of an API has so far."""

    small: int = uint16("0+")
    large: int = uint32("0+")
    real: float = float64("0+", default=0.5)
    inner: Inner | None = struct(Inner, "0+", nullable="1+", default=None)
    tagged: int = int32("2+", tag=200, default=-1)
    moved: list[int] | None = array(INT32, "0+", nullable="2+", tag=3, tagged="2+", default=None)
    outer: Inner = struct(Inner, "3+", tag=1)


@pytest.mark.parametrize("version", range(4))
@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 126, 127, 128, 300])
def test_arrays_of_numbers_of_any_length(version: int, length: int) -> None:
    numbers = list(range(length))
    msg = Sample(small=65535, large=2**32 - 1, real=-1.25, inner=Inner(numbers=numbers), moved=numbers)
    data = encode_message(msg, version)
    assert decode_message(Sample, version, data) == (msg, len(data))


def test_tagged_fields_stand_in_the_order_of_their_tags() -> None:
    msg = Sample(inner=None, moved=[7], tagged=9, outer=Inner(numbers=None))
    body = encode_message(msg, 3)
    tags = b"\x03" + b"\x01\x02\0\0" + b"\x03\x05\x02\0\0\0\x07" + b"\xc8\x01\x04\0\0\0\x09"
    assert body == b"\0\0" + b"\0\0\0\0" + b"\x3f\xe0" + bytes(6) + b"\xff" + tags
    assert decode_message(Sample, 3, body) == (msg, len(body))


def test_tagged_field_with_its_default_is_not_written() -> None:
    assert encode_message(Sample(), 3)[-1] == 0
    # Not even where its structure was built by being read.
    msg = Sample()
    assert msg.outer == Inner()
    assert encode_message(msg, 3)[-1] == 0


def test_tables_that_cannot_be_written_are_refused() -> None:
    class TaggedRecords(Message, versions="0", flexible="0+"):
        data: Any = records_("0+", nullable="0+", tag=0)

    with pytest.raises(SchemaError, match="cannot be tagged"):
        generate_encoder(TaggedRecords, 0)


@pytest.mark.parametrize(("text", "first", "last"), [("3", 3, 3), ("3-5", 3, 5), ("3+", 3, 0x7FFF), ("none", 0, -1)])
def test_versions(text: str, first: int, last: int) -> None:
    parsed = Versions.parse(text)
    assert (parsed.first, parsed.last) == (first, last)
    assert (first in parsed) == (last >= first)
    assert first - 1 not in parsed
    assert last + 1 not in parsed


def test_messages_share_no_defaults() -> None:
    one, other = MetadataResponse(), MetadataResponse()
    one.topics.append(MetadataResponseTopic())
    assert other.topics == []
    first, second = PartitionData(), PartitionData()
    first.current_leader.leader_id = 5
    assert second.current_leader == LeaderIdAndEpoch()
    data = encode_message(FetchResponse(), 17)
    decoded = decode_message(FetchResponse, 17, data)[0]
    decoded.node_endpoints.append(None)  # type: ignore[arg-type]
    assert decode_message(FetchResponse, 17, data)[0].node_endpoints == []


def test_messages_compare_by_value() -> None:
    one = PartitionData(records=b"abc", aborted_transactions=())  # type: ignore[arg-type]
    other = PartitionData(records=memoryview(b"abc"))
    assert one == other
    other.current_leader.leader_epoch = 3
    assert one != other
    assert one != "another type"
    assert "leader_epoch=3" in repr(other)
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)


def test_unknown_fields_and_positions_are_refused() -> None:
    with pytest.raises(TypeError):
        MetadataRequest(topic=[])  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        MetadataRequest([])  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        MetadataRequest().topic = []  # type: ignore[attr-defined]


def test_messages_can_be_copied_and_pickled() -> None:
    msg = PartitionData(partition_index=3, records=b"abc", current_leader=LeaderIdAndEpoch(leader_id=1))
    assert copy.deepcopy(msg) == msg
    assert pickle.loads(pickle.dumps(msg)) == msg


def test_field_names_are_python_names() -> None:
    for cls in message_classes():
        for inner in structs_of(cls):
            for field in inner.fields:
                assert field.name.isidentifier()
                assert field.name == field.name.lower()
                assert field.name in inner.__annotations__


class TestErrors:
    @pytest.mark.parametrize("code", [code for code in ErrorCode if code != ErrorCode.NONE], ids=lambda code: code.name)
    def test_every_code_has_a_class_of_its_name(self, code: ErrorCode) -> None:
        error = error_for(int(code))
        stem = code.name.removesuffix("_ERROR").removesuffix("_EXCEPTION")
        assert type(error).__name__.lower() == stem.replace("_", "").lower() + "error"
        assert getattr(errors, type(error).__name__) is type(error)
        assert error.retriable == code.retriable
        assert str(error) == f"{code.name}: {code.message}"
        assert str(error_for(int(code), "more")) == f"{code.name}: more"

    def test_code_of_a_newer_broker(self) -> None:
        error = error_for(9999, "what it says")
        assert type(error) is UnknownServerError
        assert error.message == "unknown error code 9999: what it says"
        assert not error.retriable

    def test_none_is_no_error(self) -> None:
        with pytest.raises(ValueError, match="no error"):
            error_for(0)

    def test_errors_have_one_family(self) -> None:
        assert all(issubclass(type(error_for(int(code))), KafkaError) for code in ErrorCode if code)


def test_header_of_the_oldest_controlled_shutdown_has_no_client_id() -> None:
    assert [ApiKey.CONTROLLED_SHUTDOWN.request_header_version(version) for version in range(4)] == [0, 1, 1, 2]


class NullableName(Message, versions="0-1", flexible="1+"):
    name: str | None = string("0+", nullable="1+", default=None)


def test_null_becomes_an_error_where_there_is_none() -> None:
    assert decode_message(NullableName, 1, b"\0\0") == (NullableName(), 2)
    with pytest.raises(ValueError, match=r"NullableName\.name is null"):
        decode_message(NullableName, 0, b"\xff\xff")
