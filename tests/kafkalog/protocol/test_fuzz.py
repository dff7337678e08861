"""Test that hostile bytes give a message or a ProtocolError, with no more memory than the bytes account for."""

from __future__ import annotations

import random
import struct
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import (
    ProtocolError,
    UnknownApiError,
    UnsupportedApiVersionError,
    decode_message,
    decode_request_header,
    decode_response,
    encode_message,
    encode_request,
    prepare,
)
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.protocol.schema import Message, Struct
from tests.kafkalog.protocol.support import (
    class_name,
    each_version,
    message_classes,
    request_classes,
    sample,
    versions,
)

# The smallest structures of the wire take two bytes or three, and objects of a few dozen slots.
_MEMORY_PER_BYTE = 120
_MEMORY_AT_LEAST = 20_000

_MUTATIONS = 60


@each_version
def test_every_truncation_is_refused(cls: type[Message], version: int) -> None:
    data = encode_message(sample(cls, version), version)
    for size in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_message(cls, version, data[:size])


def _mutated(data: bytes, chance: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(out) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            out[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            # What a length looks like when it lies.
            out[at : at + 4] = chance.choice([b"\xff" * 4, b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff\xff\xff\xff\x07"])
        elif kind == 2:
            del out[at : at + chance.randint(1, 4)]
        else:
            out[at:at] = chance.randbytes(chance.randint(1, 4))
    return bytes(out)


@each_version
def test_mutations_are_messages_or_refused(cls: type[Message], version: int) -> None:
    chance = random.Random(f"{cls.__name__} {version}")
    data = encode_message(sample(cls, version), version)
    for _ in range(_MUTATIONS):
        changed = _mutated(data, chance)
        try:
            msg, end = decode_message(cls, version, changed)
        except ProtocolError:
            continue
        assert end <= len(changed)
        # What was accepted can be said again, and then means the same. Text that is no UTF-8 has become U+FFFD, which
        # is longer; only a string of 11 thousand such bytes could outgrow its length, and there is none here.
        again, _ = decode_message(cls, version, encode_message(msg, version))
        # A number that is none does not equal itself.
        assert again == msg or encode_message(again, version) == encode_message(msg, version)


@pytest.mark.parametrize("cls", message_classes(), ids=class_name)
def test_random_bytes_take_little_memory(cls: type[Message]) -> None:
    chance = random.Random(cls.__name__)
    for version in versions(cls):
        sources = [chance.randbytes(2000), b"\xff" * 2000, b"\x01" * 2000, b"\x02" * 2000, b"\0" * 2000, b"\x7f" * 2000]
        for data in sources:
            assert _peak(cls, version, data) < _MEMORY_AT_LEAST + _MEMORY_PER_BYTE * len(data)


@pytest.mark.parametrize("cls", message_classes(), ids=class_name)
def test_the_least_elements_take_little_memory(cls: type[Message]) -> None:
    # The dearest honest bytes: as many elements as they can hold.
    for version in versions(cls):
        msg = sample(cls, version)
        for field in cls.fields:
            if field.is_array and version in field.versions and isinstance(field.type, type):
                setattr(msg, field.name, [_least(field.type, version)] * 300)
        data = encode_message(msg, version)
        assert _peak(cls, version, data) < _MEMORY_AT_LEAST + _MEMORY_PER_BYTE * len(data)


def _least(cls: type[Struct], version: int) -> Struct:
    """A structure with defaults, and nothing where they are null and the version has no null."""
    made = cls()
    for field in cls.fields:
        if getattr(made, field.name) is None and version in field.versions and version not in field.nullable:
            setattr(made, field.name, "")
    return made


def _peak(cls: type[Message], version: int, data: bytes) -> int:
    """Bytes allocated at most while decoding, whether it succeeds or not."""
    prepare(cls, version)
    tracemalloc.start()
    try:
        decode_message(cls, version, data)
    except ProtocolError:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    ("cls", "version", "data", "says"),
    [
        (MetadataRequest, 1, struct.pack(">i", 0x7FFFFFFF), "MetadataRequest.topics cannot have 2147483647 elements"),
        (MetadataRequest, 12, b"\xff\xff\xff\xff\x07", "MetadataRequest.topics cannot have 2147483646 elements"),
        (MetadataRequest, 12, b"\xff\xff\xff\xff\x08", "beyond 31 bits"),
        (MetadataRequest, 12, b"\xff\xff\xff\xff\xff\x01", "longer than 5 bytes"),
        (MetadataRequest, 1, struct.pack(">ih", 1, 0x7FFF), "MetadataRequest.topics.name needs 32767 bytes, and 0"),
        (MetadataRequest, 12, b"\x02" + bytes(16) + b"\x81\x80\x02" + b"x" * 32768, "can have 32767"),
        (ProduceRequest, 0, struct.pack(">hiihiii", 1, 0, 1, 0, 1, 0, 0x7FFFFFFF), "needs 2147483647"),
        (ApiVersionsRequest, 3, b"\x02a\x02b\x01\x05\xff\xff\xff\xff\x07", "tagged fields needs 2147483647 bytes"),
        (ApiVersionsRequest, 3, b"\0\0\0", "client_software_name is null"),
        (FetchRequest, 12, bytes(25) + b"\x01\x01\x01\x01\0\x05\x02abcd", "does not fill the size"),
    ],
    ids=["count", "compact count", "wide varint", "endless varint", "string", "long string", "records", "tag", "null",
         "tag size"],
)  # fmt: skip
def test_the_error_names_what_lies(cls: type[Message], version: int, data: bytes, says: str) -> None:
    with pytest.raises(ProtocolError, match=says.replace(".", r"\.")):
        decode_message(cls, version, data)


def test_count_of_integers_beyond_the_end() -> None:
    # An array of int32 is unpacked in one call, which must not reserve room for the 2 GiB that the count claims.
    good = MetadataResponse(topics=[])
    head = encode_message(good, 0)[:-4] + struct.pack(">ihhsi", 1, 0, 1, b"t", 1) + struct.pack(">hii", 0, 0, 0)
    data = head + struct.pack(">i", 0x7FFFFFFF) + bytes(100)
    assert _peak(MetadataResponse, 0, data) < _MEMORY_AT_LEAST
    with pytest.raises(ProtocolError):
        decode_message(MetadataResponse, 0, data)


def test_text_that_is_no_utf8_becomes_the_replacement_character() -> None:
    data = bytearray(encode_message(MetadataRequest(topics=[MetadataRequestTopic(name="abc")]), 1))
    data[data.index(b"b")] = 0xFF
    assert decode_message(MetadataRequest, 1, data)[0].topics == [MetadataRequestTopic(name="a\ufffdc")]


class TestHeaders:
    @pytest.mark.parametrize("cls", request_classes(), ids=class_name)
    def test_truncated(self, cls: type[Any]) -> None:
        for version in versions(cls):
            frame = encode_request(sample(cls, version), version, 1, "a client")[4:]
            _, start = decode_request_header(frame)
            for size in range(start):
                with pytest.raises(ProtocolError):
                    decode_request_header(frame[:size])

    @given(st.binary(max_size=40))
    def test_random(self, data: bytes) -> None:
        try:
            header, pos = decode_request_header(data)
        except ProtocolError:
            return
        assert pos <= len(data)
        assert ApiKey(header.api_key).min_version <= header.api_version <= ApiKey(header.api_key).max_version

    def test_unknown_api(self) -> None:
        with pytest.raises(UnknownApiError, match="unknown API key 999") as caught:
            decode_request_header(struct.pack(">hhih", 999, 3, 42, -1))
        assert (caught.value.api_key, caught.value.api_version, caught.value.correlation_id) == (999, 3, 42)

    @pytest.mark.parametrize("version", [-1, 5, 0x7FFF])
    def test_unsupported_version(self, version: int) -> None:
        # The correlation id is known all the same: ApiVersions is answered in version 0 (KIP-511).
        with pytest.raises(UnsupportedApiVersionError, match=f"API_VERSIONS has no version {version}") as caught:
            decode_request_header(struct.pack(">hhih", 18, version, 42, -1))
        assert (caught.value.api_key, caught.value.correlation_id) == (ApiKey.API_VERSIONS, 42)

    def test_client_id_that_is_no_utf8(self) -> None:
        header, pos = decode_request_header(struct.pack(">hhih", 3, 1, 42, 3) + b"a\xffc")
        assert (header.client_id, pos) == ("a\ufffdc", 13)

    @given(st.binary(max_size=60), st.sampled_from(request_classes()), st.data())
    def test_random_responses(self, data: bytes, cls: type[Any], draw: st.DataObject) -> None:
        version = draw.draw(st.sampled_from(versions(cls)))
        try:
            decode_response(cls, version, data)
        except ProtocolError:
            return
