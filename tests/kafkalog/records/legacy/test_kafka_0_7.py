"""Tests of messages of Kafka 0.7: the bytes of its source, round trips, and false fields."""

from __future__ import annotations

import gzip
import zlib
from contextlib import suppress
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.records.compression import Codec
from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)
from kafkalog.records.legacy.kafka_0_7 import (
    Message,
    encode_message,
    encode_messages,
    iter_messages,
    iter_shallow,
    read_message,
    valid_end,
    verify_message,
)

CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)
payloads = st.lists(st.binary(max_size=50) | st.integers(0, 5000).map(bytes), min_size=1, max_size=8)


def by_hand(payload: bytes, magic: int = 1, attributes: int = 0) -> bytes:
    """As `kafka.message.Message` lays it out: magic, attributes (magic 1), CRC of the payload, payload."""
    crc = zlib.crc32(payload).to_bytes(4, "big")
    body = bytes([0]) + crc + payload if magic == 0 else bytes([1, attributes]) + crc + payload
    return len(body).to_bytes(4, "big") + body


def test_bytes_of_both_magics() -> None:
    assert encode_message(b"test", magic=0) == bytes.fromhex("00000009 00 d87f7e0c 74657374")
    assert encode_message(b"test") == bytes.fromhex("0000000a 01 00 d87f7e0c 74657374")
    for magic in (0, 1):
        data = by_hand(b"a", magic) + by_hand(b"", magic)
        assert encode_messages([b"a", b""], magic=magic) == data
        size = len(by_hand(b"a", magic))
        assert list(iter_messages(data)) == [Message(0, size, b"a"), Message(size, len(data), b"")]


@pytest.mark.parametrize(("code", "compress"), [(1, gzip.compress), (2, cramjam.snappy.compress_raw)])
def test_a_compressed_message_holds_a_set(code: int, compress: Any) -> None:
    inner = by_hand(b"one") + by_hand(b"two", 0)
    data = by_hand(b"zero") + by_hand(bytes(compress(inner)), 1, code) + by_hand(b"three")
    first = len(by_hand(b"zero"))
    second = len(data) - len(by_hand(b"three"))
    # Who has read one of two stands before them still, as 0.7's consumer does.
    assert list(iter_messages(data, base=100)) == [
        Message(100, 100 + first, b"zero"),
        Message(100 + first, 100 + second, b"one"),
        Message(100 + first, 100 + second, b"two"),
        Message(100 + second, 100 + len(data), b"three"),
    ]
    assert [message.codec for message in iter_shallow(data)] == [0, code, 0]


@given(st.lists(st.tuples(payloads, st.sampled_from((0, 1)), st.sampled_from(CODECS)), max_size=4), st.data())
def test_round_trip_and_cut(parts: list[tuple[list[bytes], int, Codec]], data: Any) -> None:
    buf = b"".join(encode_messages(each, magic=1 if codec else magic, codec=codec) for each, magic, codec in parts)
    assert [message.payload for message in iter_messages(buf)] == [each for part in parts for each in part[0]]
    assert valid_end(buf) == len(buf)
    ends = [message.end for message in iter_shallow(buf)]
    cut = data.draw(st.integers(0, len(buf)))
    assert valid_end(buf[:cut]) == max((end for end in ends if end <= cut), default=0)
    assert [message.end for message in iter_shallow(buf[:cut])] == [end for end in ends if end <= cut]


@given(payloads, st.sampled_from(CODECS), st.data())
def test_a_changed_payload_is_noticed(parts: list[bytes], codec: Codec, data: Any) -> None:
    buf = bytearray(encode_messages(parts, codec=codec))
    message = read_message(buf)
    assert message is not None
    if message.payload_at == message.end:
        return
    buf[data.draw(st.integers(message.payload_at, message.end - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptRecordError):
        list(iter_messages(buf))
    assert valid_end(buf) == 0


@given(st.binary(max_size=100))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with suppress(RecordsError):
        list(iter_messages(data))
    assert 0 <= valid_end(data) <= len(data)


HOSTILE: dict[str, tuple[bytes, type[RecordsError]]] = {
    "size of 4": (b"\0\0\0\4" + bytes(20), CorruptRecordError),
    "negative size": (b"\xff\xff\xff\xff" + bytes(20), CorruptRecordError),
    "a negative size at the end": (b"\xff\xff\xff\xff", CorruptRecordError),
    "size of 5 of magic 1": (b"\0\0\0\5\1" + bytes(20), CorruptRecordError),
    "magic 2": (b"\0\0\0\x10\2" + bytes(20), UnsupportedMagicError),
    "codec 3": (by_hand(b"x", 1, 3), UnsupportedCompressionTypeError),
    "no gzip": (by_hand(b"x", 1, 1), CorruptRecordError),
    "cut off within": (by_hand(gzip.compress(by_hand(b"x")[:-1]), 1, 1), CorruptRecordError),
    "damaged within": (by_hand(gzip.compress(by_hand(b"x")[:-1] + b"y"), 1, 1), CorruptRecordError),
    "compressed twice": (by_hand(gzip.compress(by_hand(gzip.compress(by_hand(b"x")), 1, 1)), 1, 1), InvalidRecordError),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile(name: str) -> None:
    data, error = HOSTILE[name]
    with pytest.raises(error):
        list(iter_messages(data))


def test_a_huge_size_is_a_message_that_is_not_there() -> None:
    assert read_message(b"\x7f\xff\xff\xff\1\0" + bytes(20)) is None
    assert valid_end(b"\x7f\xff\xff\xff\1\0" + bytes(20)) == 0


def test_decompression_is_bounded() -> None:
    data = encode_messages([bytes(1 << 20)], codec=Codec.GZIP)
    with pytest.raises(RecordTooLargeError):
        list(iter_messages(data, max_size=1 << 16))


def test_what_0_7_does_not_have() -> None:
    for codec in (Codec.LZ4, Codec.ZSTD):
        with pytest.raises(UnsupportedCompressionTypeError):
            encode_messages([b"x"], codec=codec)
    with pytest.raises(UnsupportedCompressionTypeError):
        encode_messages([b"x"], magic=0, codec=Codec.GZIP)
    with pytest.raises(UnsupportedMagicError):
        encode_message(b"x", magic=2)
    verify_message(by_hand(b"x"), read_message(by_hand(b"x")))  # type: ignore[arg-type]
