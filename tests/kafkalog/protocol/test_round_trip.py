"""Test that every message in every version decodes to what was encoded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import (
    EncodeError,
    decode_message,
    decode_request_header,
    decode_response,
    decode_within,
    encode_message,
    encode_request,
    encode_response,
    prepare,
)
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.generator import contains_records
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kafkalog.protocol.primitives import ProtocolError
from kafkalog.protocol.schema import Message, Request, Scalar
from tests.kafkalog.protocol.support import (
    class_name,
    each_version,
    message_classes,
    request_classes,
    sample,
    values,
    versions,
)
from tests.support.amount import examples


@pytest.mark.parametrize("cls", message_classes(), ids=class_name)
def test_message_survives_encoding_and_decoding(cls: type[Message]) -> None:
    @settings(max_examples=examples(15))
    @given(st.tuples(*(values(cls, version) for version in versions(cls))))
    def check(messages: tuple[Message, ...]) -> None:
        for version, msg in zip(versions(cls), messages, strict=True):
            data = encode_message(msg, version)
            assert decode_message(cls, version, data) == (msg, len(data)), f"version {version}"
            # Inside a frame, and in a buffer of another type, the message is the same.
            framed = memoryview(b"\xff" + data + b"\xff")
            assert decode_message(cls, version, framed, 1) == (msg, len(data) + 1), f"version {version}"

    check()


@each_version
def test_defaults_survive(cls: type[Message], version: int) -> None:
    # What a caller that sets nothing sends; null becomes empty where the version has no null.
    msg = cls()
    for field in cls.fields:
        if getattr(msg, field.name) is None and version in field.versions and version not in field.nullable:
            empty: Any = [] if field.is_array else field.type.zero if isinstance(field.type, Scalar) else field.type()
            setattr(msg, field.name, empty)
    data = encode_message(msg, version)
    assert decode_message(cls, version, data) == (msg, len(data))


@each_version
def test_what_is_decoded_within_a_budget_is_a_copy(cls: type[Message], version: int) -> None:
    """The connection receives the next request into the same buffer. Only records are views of it."""
    msg = sample(cls, version)
    data = bytearray(encode_message(msg, version))
    decoded = decode_within(cls, version, memoryview(data), 0, 1 << 20)
    assert decoded == msg
    if not contains_records(cls):
        data[:] = b"\xff" * len(data)
        assert decoded == msg


@pytest.mark.parametrize("cls", request_classes(), ids=class_name)
def test_request_frames(cls: type[Request]) -> None:
    for version in versions(cls):
        for client_id in ("a client", "", None):
            msg = sample(cls, version)
            frame = encode_request(msg, version, -7, client_id)
            assert int.from_bytes(frame[:4], "big") == len(frame) - 4
            header, start = decode_request_header(frame, 4)
            named = client_id if ApiKey(cls.api_key).request_header_version(version) else None
            assert header == (cls.api_key, version, -7, named)
            assert decode_message(cls, version, frame, start) == (msg, len(frame))


@pytest.mark.parametrize("cls", request_classes(), ids=class_name)
def test_response_frames(cls: type[Request]) -> None:
    for version in versions(cls):
        msg = sample(cls.response_type, version)
        frame = b"".join(encode_response(msg, version, 99))  # type: ignore[arg-type]
        assert int.from_bytes(frame[:4], "big") == len(frame) - 4
        assert decode_response(cls, version, frame[4:]) == (99, msg)


def test_every_request_has_a_response_of_its_versions() -> None:
    for cls in request_classes():
        answer = cls.response_type
        assert answer.api_key == cls.api_key
        assert (answer.min_version, answer.max_version) == (cls.min_version, cls.max_version)
        api = ApiKey(cls.api_key)
        assert (api.min_version, api.max_version) == (cls.min_version, cls.max_version)
        for version in versions(cls):
            flexible = version in cls.flexible_versions
            assert (version in answer.flexible_versions) == flexible
            if (api, version) != (ApiKey.CONTROLLED_SHUTDOWN, 0):
                assert api.request_header_version(version) == (2 if flexible else 1)
            response_header = 1 if flexible and api is not ApiKey.API_VERSIONS else 0
            assert api.response_header_version(version) == response_header


def test_api_versions_response_has_a_header_without_tags() -> None:
    response = ApiVersionsResponse(throttle_time_ms=5)
    for version in versions(ApiVersionsResponse):
        frame = b"".join(encode_response(response, version, 3))  # type: ignore[arg-type]
        body = encode_message(response, version)
        assert frame[4:] == (3).to_bytes(4, "big") + body


def test_client_reads_the_refusal_of_its_api_versions_request() -> None:
    # A broker that does not speak the version answers in version 0, whatever was asked (KIP-511).
    refusal = ApiVersionsResponse(error_code=35)
    frame = b"".join(encode_response(refusal, 0, 1))  # type: ignore[arg-type]
    assert decode_response(ApiVersionsRequest, 4, frame[4:]) == (1, refusal)


def test_unknown_tagged_fields_are_skipped() -> None:
    data = encode_message(MetadataRequest(topics=[]), 12)
    assert data[-1] == 0
    # Three tags that no table knows: the last has the greatest number a tag can have, and no bytes.
    extended = data[:-1] + b"\x03" + b"\x00\x02hi" + b"\x63\x81\x01" + b"x" * 129 + b"\xff\xff\xff\xff\x07\x00"
    assert decode_message(MetadataRequest, 12, extended) == (MetadataRequest(topics=[]), len(extended))


def test_unknown_tagged_fields_of_a_header_are_skipped() -> None:
    frame = encode_request(ApiVersionsRequest(), 3, 1, "c")
    header, start = decode_request_header(frame, 4)
    extended = frame[: start - 1] + b"\x01\x05\x03abc" + frame[start:]
    again, moved = decode_request_header(extended, 4)
    assert again == header
    assert extended[moved:] == frame[start:]


_FAR = FetchableTopicResponse(partitions=[PartitionData(preferred_read_replica=1)])


class TestVersionsThatLackAField:
    def test_a_value_that_may_be_left_out_is(self) -> None:
        data = encode_message(FetchRequest(topics=[], rack_id="here"), 4)
        assert decode_message(FetchRequest, 4, data)[0] == FetchRequest(topics=[], max_bytes=0x7FFFFFFF)

    @pytest.mark.parametrize(
        ("msg", "version"),
        [
            (MetadataRequest(topics=[], include_topic_authorized_operations=True), 7),
            (ProduceRequest(transactional_id="t"), 2),
            (FetchResponse(session_id=1), 6),
            (FetchResponse(responses=[_FAR]), 10),
        ],
        ids=["request", "nullable", "response", "nested"],
    )
    def test_a_value_that_may_not_is_refused(self, msg: Message, version: int) -> None:
        with pytest.raises(UnsupportedVersionError, match="another value than its default"):
            encode_message(msg, version)

    def test_null_where_the_version_has_none(self) -> None:
        with pytest.raises(EncodeError, match=r"MetadataRequest\.topics is None"):
            encode_message(MetadataRequest(topics=None), 0)
        with pytest.raises(EncodeError, match=r"name is None"):
            encode_message(MetadataRequest(topics=[MetadataRequestTopic(name=None)]), 9)

    def test_version_that_does_not_exist(self) -> None:
        for version in (-1, MetadataRequest.max_version + 1):
            with pytest.raises(UnsupportedVersionError, match="has versions 0 to 12"):
                encode_message(MetadataRequest(topics=[]), version)
            with pytest.raises(UnsupportedVersionError, match="has versions 0 to 12"):
                decode_message(MetadataRequest, version, b"")


@pytest.mark.parametrize(
    ("msg", "version"),
    [
        (MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32768)]), 4),
        (MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32768)]), 12),
        (ProduceRequest(acks=1 << 15), 9),
        (ProduceRequest(timeout_ms="soon"), 9),  # type: ignore[arg-type]
        (MetadataRequest(topics=[MetadataRequestTopic(name="\ud800")]), 9),
        (MetadataRequest(topics=[MetadataRequestTopic(name=3)]), 9),  # type: ignore[arg-type]
    ],
    ids=["long string", "long compact string", "wide number", "no number", "lone surrogate", "no string"],
)
def test_values_that_do_not_fit_are_refused(msg: Message, version: int) -> None:
    with pytest.raises(EncodeError):
        encode_message(msg, version)


def test_longest_string() -> None:
    for version in (4, 12):
        msg = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32767)])
        assert decode_message(MetadataRequest, version, encode_message(msg, version))[0] == msg


@given(st.binary(min_size=1, max_size=300), st.sampled_from(versions(ProduceRequest)))
def test_decoded_records_are_views_of_the_input(records: bytes, version: int) -> None:
    msg = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(index=1, records=records)])]
    )
    data = bytearray(encode_message(msg, version))
    decoded = decode_message(ProduceRequest, version, data)[0]
    view = decoded.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert view.obj is data
    assert view == records


@pytest.mark.parametrize("version", versions(FetchResponse))
def test_encoded_records_stay_the_callers_objects(version: int) -> None:
    class Slice:
        """Bytes that are still in a file."""

        def __len__(self) -> int:
            return 1 << 20

    first, second = Slice(), b"second"
    partitions = [PartitionData(records=first), PartitionData(records=b""), PartitionData(records=second)]
    chunks = encode_response(FetchResponse(responses=[FetchableTopicResponse(partitions=partitions)]), version, 1)
    assert any(chunk is first for chunk in chunks)
    assert any(chunk is second for chunk in chunks)
    head: Any = chunks[0]
    assert int.from_bytes(head[:4], "big") == sum(map(len, chunks)) - 4


def test_prepare_makes_every_function() -> None:
    for cls in message_classes():
        for version in versions(cls):
            prepare(cls, version)
        with pytest.raises(UnsupportedVersionError):
            prepare(cls, cls.max_version + 1)


@pytest.mark.parametrize("count", [4096, 4097, 65_536, 65_537, 200_001])
def test_long_arrays_of_numbers(count: int) -> None:
    """Those of more than 65,536 numbers are not lists: of a list the collector looks at every element."""
    numbers = [(at * 2_654_435_761) % (1 << 32) - (1 << 31) for at in range(count)]
    topic = DescribableLogDirTopic(topic="t", partitions=numbers)
    for version in (1, 4):
        frame = encode_request(DescribeLogDirsRequest(topics=[topic]), version, 1, "c")[4:]
        _, at = decode_request_header(frame)
        message, end = decode_message(DescribeLogDirsRequest, version, frame, at)
        assert message.topics is not None
        (found,) = message.topics
        assert list(found.partitions) == numbers
        assert isinstance(found.partitions, list) == (count <= 65_536)
        assert end == len(frame)
        assert encode_request(message, version, 1, "c")[4:] == frame
        with pytest.raises(ProtocolError):
            decode_message(DescribeLogDirsRequest, version, frame[: len(frame) // 2], at)
