"""Encodes and decodes messages: bodies, headers and frames.

A frame is an int32 length and that many bytes: a header, then the body of a message.

=================  ===========================================================================================
request header 1   int16 API key, int16 API version, int32 correlation id, nullable string client id
request header 2   the same, then tagged fields; the client id stays a string with an int16 length (KIP-482)
response header 0  int32 correlation id
response header 1  int32 correlation id, tagged fields
=================  ===========================================================================================

Headers 2 and 1 belong to flexible versions. The response of ApiVersions always has header 0, and a broker
that does not speak the version of an ApiVersions request answers in version 0 with UNSUPPORTED_VERSION
(KIP-511).

Record bytes are never copied: decoding returns memoryviews of the input, and encoding returns a list of chunks that
contains the caller's record objects unchanged. A chunk of records may be any object with a length, such as a slice of a
file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sized
from typing import Any, NamedTuple, TypeAlias

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.decoder import generate_decoder
from kafkalog.protocol.encoder import generate_encoder
from kafkalog.protocol.errors import ErrorCode, UnsupportedVersionError
from kafkalog.protocol.generator import contains_records
from kafkalog.protocol.primitives import (
    MAX_STRING,
    EncodeError,
    ProtocolError,
    TooManyEntriesError,
    read_uvarint,
    too_short,
)
from kafkalog.protocol.schema import M, Message, Request, Response

__all__ = [
    "Chunk",
    "EncodeError",
    "ProtocolError",
    "RequestHeader",
    "TooManyEntriesError",
    "UnknownApiError",
    "UnsupportedApiVersionError",
    "decode_message",
    "decode_request_header",
    "decode_response",
    "decode_within",
    "encode_message",
    "encode_request",
    "encode_request_chunks",
    "encode_response",
    "prepare",
    "response_head",
]

Chunk: TypeAlias = bytes | bytearray | memoryview | Sized

_REQUEST_START = struct.Struct(">hhi")
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_LENGTH_SIZE = 4
_MAX_FRAME = 0x7FFFFFFF

_decoders: dict[tuple[type[Message], int], tuple[Callable[..., tuple[Any, int]], bool]] = {}
_encoders: dict[tuple[type[Message], int], Callable[..., None]] = {}
_bounded_decoders: dict[tuple[type[Message], int], Callable[..., tuple[Any, int]]] = {}
"""Caches for the whole process. The functions of a class and version are generated at their first use, never change,
and have no state. The decoders are pairs: the function, and whether the message has records."""


class UnknownApiError(ProtocolError):
    """A request of an API that does not exist."""

    def __init__(self, api_key: int, api_version: int, correlation_id: int) -> None:
        super().__init__(f"unknown API key {api_key}")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class UnsupportedApiVersionError(ProtocolError):
    """A request in a version that its API does not have; the rest of its header has an unknown form."""

    def __init__(self, api_key: ApiKey, api_version: int, correlation_id: int) -> None:
        super().__init__(f"{api_key.name} has no version {api_version}")
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id


class RequestHeader(NamedTuple):
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


# Bodies


def decode_message(cls: type[M], version: int, buf: Any, pos: int = 0) -> tuple[M, int]:
    """Decode a message that begins at `pos`; return the message and the position after it.

    `buf` is bytes, bytearray or memoryview. Records become memoryviews of it; all other values are copies.

    Raises:
        ProtocolError: The bytes are malformed.
        UnsupportedVersionError: The message lacks the version.
    """
    found = _decoders.get((cls, version))
    if found is None:
        found = _make_decoder(cls, version)
    decode, has_records = found
    if has_records:
        if type(buf) is not memoryview:
            buf = memoryview(buf)
    elif type(buf) is not bytes:
        buf = bytes(buf)
    try:
        return decode(buf, pos, len(buf))
    except (IndexError, struct.error) as error:
        raise ProtocolError(f"{cls.__name__} v{version} does not end in {len(buf) - pos} bytes") from error


def decode_within(cls: type[M], version: int, buf: memoryview, pos: int, budget: int) -> M:
    """Decode a message that begins at `pos`, unless that would take long.

    Records are views of `buf`; all other values are copies, as with `decode_message`.

    Args:
        cls: the class of the message.
        version: its version.
        buf: the bytes.
        pos: the position of the message.
        budget: the largest cost of decoding (see `decoder`); records cost nothing.

    Raises:
        TooManyEntriesError: Decoding costs more.
        ProtocolError, UnsupportedVersionError: `decode_message` raises them.
    """
    decode = _bounded_decoders.get((cls, version))
    if decode is None:
        _check_version(cls, version)
        decode = _bounded_decoders[cls, version] = generate_decoder(cls, version, with_budget=True)
    try:
        message: M = decode(buf, pos, len(buf), budget)[0]
    except (IndexError, struct.error) as error:
        raise ProtocolError(f"{cls.__name__} v{version} does not end in {len(buf) - pos} bytes") from error
    return message


def encode_message(msg: Message, version: int) -> bytes:
    """Encode a message's body.

    Raises:
        UnsupportedVersionError: The message lacks the version, or the version cannot carry its values.
        EncodeError: A value does not fit its field.
    """
    return _join(_encode_chunks(msg, version, bytearray()))


def prepare(cls: type[Message], version: int) -> None:
    """Generate a message's functions now, which costs a millisecond or so, rather than at their first use."""
    if (cls, version) not in _decoders:
        _make_decoder(cls, version)
    if (cls, version) not in _encoders:
        _make_encoder(cls, version)


# Requests


def decode_request_header(buf: Any, pos: int = 0, most_tags: int | None = None) -> tuple[RequestHeader, int]:
    """Decode a request's header; return the header and the position of the body.

    Raises:
        UnknownApiError: There is no such API. The error carries the correlation id that ApiVersions needs.
        UnsupportedApiVersionError: The API lacks the version. The error carries the correlation id, too.
        ProtocolError: The bytes are malformed.
        TooManyEntriesError: There are more than `most_tags` tagged fields.
    """
    end = len(buf)
    if end - pos < _REQUEST_START.size:
        raise too_short("request header", _REQUEST_START.size, end - pos)
    key, version, correlation_id = _REQUEST_START.unpack_from(buf, pos)
    pos += _REQUEST_START.size
    api = _API_KEYS.get(key)
    if api is None:
        raise UnknownApiError(key, version, correlation_id)
    if not api.min_version <= version <= api.max_version:
        raise UnsupportedApiVersionError(api, version, correlation_id)
    header_version = api.request_header_version(version)
    client_id = None
    if header_version > 0:
        client_id, pos = _read_client_id(buf, pos, end)
    if header_version > 1:
        pos = _skip_tagged_fields(buf, pos, end, most_tags)
    return RequestHeader(key, version, correlation_id, client_id), pos


def encode_request(msg: Request, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """Encode a request's frame, length included."""
    return _join(encode_request_chunks(msg, version, correlation_id, client_id))


def encode_request_chunks(msg: Request, version: int, correlation_id: int, client_id: str | None) -> list[Chunk]:
    """Encode a request's frame, length included, without copying its records."""
    api = ApiKey(msg.api_key)
    out = bytearray(_LENGTH_SIZE)
    out += _REQUEST_START.pack(msg.api_key, version, correlation_id)
    header_version = api.request_header_version(version)
    if header_version > 0:
        if client_id is None:
            out += _INT16.pack(-1)
        else:
            data = client_id.encode()
            if len(data) > MAX_STRING:
                raise EncodeError(f"client id has {len(data)} bytes, and a string can have {MAX_STRING}")
            out += _INT16.pack(len(data)) + data
    if header_version > 1:
        out.append(0)
    return _frame(_encode_chunks(msg, version, out), out)


# Responses


def encode_response(msg: Response, version: int, correlation_id: int) -> list[Chunk]:
    """Encode a response's frame; the first chunk begins with the length, which counts the records too."""
    out = response_head(msg, version, correlation_id)
    return _frame(_encode_chunks(msg, version, out), out)


def response_head(msg: Response, version: int, correlation_id: int, body_size: int = 0) -> bytearray:
    """Return what comes before the body of a response: the length of a frame with such a body, and the header."""
    out = bytearray(_LENGTH_SIZE)
    out += _INT32.pack(correlation_id)
    if ApiKey(msg.api_key).response_header_version(version):
        out.append(0)
    _INT32.pack_into(out, 0, len(out) - _LENGTH_SIZE + body_size)
    return out


def decode_response(request_cls: type[Request], version: int, buf: Any) -> tuple[int, Any]:
    """Decode the response to a request of this class and version, from a frame without its length.

    Return the correlation id and the response, whose records are memoryviews of `buf`.
    """
    end = len(buf)
    if end < _INT32.size:
        raise too_short("response header", _INT32.size, end)
    (correlation_id,) = _INT32.unpack_from(buf)
    pos = _INT32.size
    api = ApiKey(request_cls.api_key)
    if api.response_header_version(version):
        pos = _skip_tagged_fields(buf, pos, end)
    if api is ApiKey.API_VERSIONS and version > 0 and end - pos >= _INT16.size:
        # The error comes first in every version, and this one means that the rest is in version 0.
        (error_code,) = _INT16.unpack_from(buf, pos)
        if error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
    msg, _ = decode_message(request_cls.response_type, version, buf, pos)
    return correlation_id, msg


# Inside

_API_KEYS = {int(key): key for key in ApiKey}


def _make_decoder(cls: type[Message], version: int) -> tuple[Callable[..., tuple[Any, int]], bool]:
    _check_version(cls, version)
    made = _decoders[cls, version] = (generate_decoder(cls, version), contains_records(cls))
    return made


def _make_encoder(cls: type[Message], version: int) -> Callable[..., None]:
    _check_version(cls, version)
    made = _encoders[cls, version] = generate_encoder(cls, version)
    return made


def _check_version(cls: type[Message], version: int) -> None:
    if not cls.min_version <= version <= cls.max_version:
        raise UnsupportedVersionError(
            f"{cls.__name__} has versions {cls.min_version} to {cls.max_version}, not {version}"
        )


def _encode_chunks(msg: Message, version: int, out: bytearray) -> list[Chunk]:
    """Append the body to `out`; return all chunks, with the records between the pieces of `out`."""
    cls = type(msg)
    encode = _encoders.get((cls, version))
    if encode is None:
        encode = _make_encoder(cls, version)
    cuts: list[tuple[int, Sized]] = []
    try:
        encode(msg, out, cuts)
    except (struct.error, TypeError, AttributeError, UnicodeEncodeError) as error:
        raise EncodeError(f"{cls.__name__} v{version}: {error}") from error
    if not cuts:
        return [out]
    chunks: list[Chunk] = []
    view = memoryview(out)
    start = 0
    for position, records in cuts:
        if position > start:
            chunks.append(view[start:position])
        chunks.append(records)
        start = position
    if start < len(out):
        chunks.append(view[start:])
    return chunks


def _frame(chunks: list[Chunk], out: bytearray) -> list[Chunk]:
    size = sum(map(len, chunks)) - _LENGTH_SIZE
    if size > _MAX_FRAME:
        raise EncodeError(f"a frame of {size} bytes is longer than its length can say")
    _INT32.pack_into(out, 0, size)
    return chunks


def _join(chunks: list[Chunk]) -> bytes:
    return b"".join(chunks)  # type: ignore[arg-type]


def _read_client_id(buf: Any, pos: int, end: int) -> tuple[str | None, int]:
    if end - pos < _INT16.size:
        raise too_short("client id", _INT16.size, end - pos)
    (size,) = _INT16.unpack_from(buf, pos)
    pos += _INT16.size
    if size < 0:
        return None, pos
    if size > end - pos:
        raise too_short("client id", size, end - pos)
    return str(buf[pos : pos + size], "utf-8", "replace"), pos + size


def _skip_tagged_fields(buf: Any, pos: int, end: int, most: int | None = None) -> int:
    try:
        count, pos = read_uvarint(buf, pos)
        if most is not None and count > most:
            raise TooManyEntriesError
        for _ in range(count):
            _, pos = read_uvarint(buf, pos)
            size, pos = read_uvarint(buf, pos)
            if size > end - pos:
                raise too_short("tagged field of the header", size, end - pos)
            pos += size
    except IndexError as error:
        raise ProtocolError("the header's tagged fields are cut short") from error
    return pos
