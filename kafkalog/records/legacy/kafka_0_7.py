"""Messages of Kafka 0.7, from before offsets were numbers of messages (`Message`, `ByteBufferMessageSet` of 0.7.2).

A message set is messages one after another. All integers are big-endian:

| at | field      | type   | meaning                                                              |
|----|------------|--------|----------------------------------------------------------------------|
| 0  | size       | int32  | bytes after this field                                               |
| 4  | magic      | int8   | 0, or 1 (0.7)                                                        |
| 5  | attributes | int8   | magic 1 only: bits 0..1 are the codec: 0 none, 1 gzip, 2 snappy      |
|    | crc        | uint32 | CRC-32 (zlib's) of the payload alone                                 |
|    | payload    |        | the message; with a codec a message set, compressed as one block     |

There are no keys and no timestamps. An offset is a position in the log: the bytes before it, in all its segments. That
of the message behind is `next_offset`, which is what a consumer of 0.7 stores. Messages within a compressed one share
its offset, for a consumer can only begin before it. Here no compressed message lies in another.

Whole directories are read and written by `broker.log.kafka_0_7`. For a dump: `iter_messages` (what was sent) and
`iter_shallow` (what is stored).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from struct import Struct
from typing import NamedTuple

from kafkalog.records import compression
from kafkalog.records.compression import Buffer, Codec
from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)

SIZE_BYTES = 4
HEADER_SIZES = (5, 6)
"""Bytes of magic, attributes and CRC, by magic: the least value of a size field."""
LEAST_BYTES = SIZE_BYTES + HEADER_SIZES[0]
CODEC_MASK = 0x03

_SIZE = Struct(">i")
_CRC = Struct(">I")
_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY)


class StoredMessage(NamedTuple):
    """A message as a log stores it: its `position` in the given bytes, its whole `size`, its payload's place."""

    position: int
    size: int
    magic: int
    codec: Codec
    crc: int
    payload_at: int

    @property
    def end(self) -> int:
        return self.position + self.size


class Message(NamedTuple):
    """A message as it was sent, its offset, and the offset after the stored message that holds it."""

    offset: int
    next_offset: int
    payload: bytes


def read_message(buf: Buffer, pos: int = 0) -> StoredMessage | None:
    """Return the message at `pos`; None where it is incomplete.

    The checksum is not verified.

    Raises:
        CorruptRecordError: The size is impossible.
        UnsupportedMagicError: The format is unknown.
        UnsupportedCompressionTypeError: The codec is unknown.
    """
    if len(buf) - pos < LEAST_BYTES:
        if len(buf) - pos >= SIZE_BYTES:
            _check_size(_SIZE.unpack_from(buf, pos)[0], 0, pos)
        return None
    (size,) = _SIZE.unpack_from(buf, pos)
    magic = buf[pos + SIZE_BYTES]
    _check_size(size, 0, pos)
    if magic >= len(HEADER_SIZES):
        raise UnsupportedMagicError(f"magic {magic} at position {pos} in a message set of Kafka 0.7, which is 0 or 1")
    _check_size(size, magic, pos)
    if size > len(buf) - pos - SIZE_BYTES:
        return None
    codec = Codec.NONE
    if magic:
        code = buf[pos + SIZE_BYTES + 1] & CODEC_MASK
        if code >= len(_CODECS):
            raise UnsupportedCompressionTypeError(f"unknown compression type {code} at position {pos}")
        codec = _CODECS[code]
    payload_at = pos + SIZE_BYTES + HEADER_SIZES[magic]
    (crc,) = _CRC.unpack_from(buf, payload_at - 4)
    return StoredMessage(pos, SIZE_BYTES + size, magic, codec, crc, payload_at)


def _check_size(size: int, magic: int, pos: int) -> None:
    if size < HEADER_SIZES[magic]:
        raise CorruptRecordError(f"message size {size} at position {pos} is less than a message's header")


def verify_message(buf: Buffer, message: StoredMessage) -> None:
    """Check that the payload's checksum is the stated one.

    Raises:
        CorruptRecordError: It is another.
    """
    computed = zlib.crc32(memoryview(buf)[message.payload_at : message.end])
    if computed != message.crc:
        raise CorruptRecordError(
            f"message at position {message.position}: CRC {computed:#010x}, stored {message.crc:#010x}"
        )


def iter_shallow(buf: Buffer, pos: int = 0) -> Iterator[StoredMessage]:
    """Yield every whole message from `pos` on, compressed ones as they are; leave out an incomplete one at the end.

    Checksums are not verified.

    Raises:
        CorruptRecordError, UnsupportedMagicError, UnsupportedCompressionTypeError: `read_message` raises them.
    """
    while (message := read_message(buf, pos)) is not None:
        yield message
        pos = message.end


def iter_messages(
    buf: Buffer,
    pos: int = 0,
    *,
    base: int = 0,
    check_crc: bool = True,
    max_size: int = compression.DEFAULT_MAX_SIZE,
) -> Iterator[Message]:
    """Yield every message that was sent, from the whole ones from `pos` on.

    `base` is the offset of the first byte of `buf`; `max_size` bounds what one compressed message may expand to.

    Raises:
        RecordsError: A message cannot be decoded; any of its subclasses.
    """
    for stored in iter_shallow(buf, pos):
        if check_crc:
            verify_message(buf, stored)
        offset, following = base + stored.position, base + stored.end
        payload = memoryview(buf)[stored.payload_at : stored.end]
        if stored.codec is Codec.NONE:
            yield Message(offset, following, bytes(payload))
            continue
        within = compression.decompress(stored.codec, bytes(payload), max_size)
        for inner in _within(within, offset):
            if check_crc:
                verify_message(within, inner)
            yield Message(offset, following, bytes(within[inner.payload_at : inner.end]))


def _within(data: Buffer, offset: int) -> Iterator[StoredMessage]:
    pos = 0
    while pos < len(data):
        inner = read_message(data, pos)
        if inner is None:
            raise CorruptRecordError(f"the message at offset {offset} ends within one that is compressed in it")
        if inner.codec is not Codec.NONE:
            raise InvalidRecordError(f"compressed message within the one at offset {offset}")
        yield inner
        pos = inner.end


def valid_end(buf: Buffer, pos: int = 0) -> int:
    """Return the position after the last whole and valid message from `pos` on, as 0.7's recovery finds it."""
    try:
        for message in iter_shallow(buf, pos):
            verify_message(buf, message)
            pos = message.end
    except (CorruptRecordError, UnsupportedMagicError, UnsupportedCompressionTypeError):
        pass
    return pos


def encode_message(payload: Buffer, *, magic: int = 1, codec: int = Codec.NONE) -> bytes:
    """Encode one message; with a codec, `payload` must be compressed already. Magic 0 has no codecs."""
    if not 0 <= magic < len(HEADER_SIZES):
        raise UnsupportedMagicError(f"no message of Kafka 0.7 has magic {magic}")
    if not 0 <= codec < (len(_CODECS) if magic else 1):
        raise UnsupportedCompressionTypeError(f"compression type {int(codec)} in a message of Kafka 0.7, magic {magic}")
    head = bytes((magic, codec)) if magic else bytes((magic,))
    size = len(head) + 4 + len(payload)
    if size > 0x7FFFFFFF:
        raise InvalidRecordError("message of more than 2 GiB")
    return b"".join((_SIZE.pack(size), head, _CRC.pack(zlib.crc32(payload)), payload))


def encode_messages(payloads: Sequence[Buffer], *, magic: int = 1, codec: int = Codec.NONE) -> bytes:
    """Encode a message set: one message for each payload or, with a codec, one with all of them in it."""
    data = b"".join([encode_message(payload, magic=magic) for payload in payloads])
    if not codec or not payloads:
        return data
    if not 0 <= codec < len(_CODECS):
        raise UnsupportedCompressionTypeError(f"compression type {int(codec)} in a message of Kafka 0.7")
    return encode_message(bytes(compression.compress(codec, data)), magic=magic, codec=codec)
