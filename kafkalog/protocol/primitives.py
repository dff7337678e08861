"""The primitive types of the protocol, and the functions that generated functions call.

=====================  =====================================================================================
int8 … int64, float64  big-endian
boolean                one byte, 0 is false, every other value true
uuid                   16 bytes; all zero means none
uvarint                7 bits a byte, lowest first, high bit set on all bytes but the last; at most 5 bytes
string                 int16 length and UTF-8; length -1 is null
compact string         uvarint of length + 1 and UTF-8; 0 is null
bytes, records         int32 length and bytes; -1 is null
compact bytes          uvarint of length + 1 and bytes; 0 is null
array                  int32 count and elements; -1 is null
compact array          uvarint of count + 1 and elements; 0 is null
nullable structure     int8 1 and the structure, or -1 for null
tagged fields          uvarint count, then each uvarint tag, uvarint size, value; ends flexible structures
=====================  =====================================================================================

Any negative length of a string or array is read as null, as in Kafka. Strings have at most 32,767 bytes. Bytes that are
not UTF-8 become U+FFFD, as in Kafka; checks of names then refuse the result. Source:
`clients/.../common/protocol/types/Type`,
`clients/.../common/utils/ByteUtils`, KIP-482.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Sequence
from functools import lru_cache
from struct import Struct
from typing import Any
from uuid import UUID

MAX_STRING = 0x7FFF
_MAX_LENGTH = 0x7FFFFFFF
_LONG_ARRAY = 0x7F
"""Counts (length + 1) of arrays of at least this length take a uvarint of two bytes or more."""
_CACHED_LENGTH = 64
_CACHED_RUNS = 256
"""The number of cached `struct.Struct` objects for runs with short arrays, such as replica lists."""


class ProtocolError(ValueError):
    """The bytes are not a valid message: truncated, or with wrong lengths."""


class TooManyEntriesError(Exception):
    """A message has more entries than the caller allows to decode at once."""


class EncodeError(ValueError):
    """A field cannot have its value: None where null is not allowed, or a number out of range."""


def fits_string(text: str | None) -> bool:
    """Return whether a string can have this text; text that was read may be too long for one.

    Bytes that are not UTF-8 become three bytes each.
    """
    # No character has more than four bytes; encode only long texts.
    return text is None or 4 * len(text) <= MAX_STRING or len(text.encode()) <= MAX_STRING


def read_uvarint(buf: Any, pos: int) -> tuple[int, int]:
    """Read an unsigned varint; return the value and the position after it."""
    first = buf[pos]
    return (first, pos + 1) if first < 0x80 else continue_uvarint(buf, pos + 1, first)


def continue_uvarint(buf: Any, pos: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte, already read, has its high bit set."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = buf[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > _MAX_LENGTH:
                raise ProtocolError(f"unsigned varint {value} is beyond 31 bits")
            return value, pos
    raise ProtocolError("unsigned varint is longer than 5 bytes")


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@lru_cache(4096)
def read_uuid(data: bytes) -> UUID:
    """Make the UUID of 16 bytes. Cached, because a cluster has few topics and making one takes a microsecond."""
    return UUID(bytes=data)


def too_short(path: str, need: int, have: int) -> ProtocolError:
    return ProtocolError(f"{path} needs {need} bytes, and {have} are left")


def too_many(path: str, count: int, have: int) -> ProtocolError:
    return ProtocolError(f"{path} cannot have {count} elements in the {have} bytes that are left")


def null_value(path: str) -> ProtocolError:
    return ProtocolError(f"{path} is null")


def long_string(path: str, length: int) -> ProtocolError:
    return ProtocolError(f"{path} has {length} bytes, and a string can have {MAX_STRING}")


def wrong_size(path: str) -> ProtocolError:
    return ProtocolError(f"{path} does not fill the size that its tag announces")


class _UnpackTable(dict[int, Callable[..., tuple[Any, ...]]]):
    """Functions that unpack arrays of one type, made at first use for their length."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __missing__(self, length: int) -> Callable[..., tuple[Any, ...]]:
        function = Struct(f">{length}{self._code}").unpack_from
        if length <= _CACHED_LENGTH:
            self[length] = function
        return function


UNPACK_ARRAY = {code: _UnpackTable(code) for code in "?bhHiIqd"}

LONG_RUN = 4096
"""The largest number of values unpacked in one call. Other threads wait for the call; 20 million values take 1 s."""


HUGE_RUN = 1 << 16
"""Longer arrays do not become lists, whose elements take 36 bytes each and are visited by the garbage collector."""
ARRAY_CODES = frozenset("bhHiIqd")


def unpack_long_array(buf: Any, pos: int, end: int, count: int, code: str, path: str) -> Sequence[Any]:
    """Unpack an array of more than `LONG_RUN` values of fixed width, piece by piece.

    Returns a list; an `array` for more than `HUGE_RUN` numbers.

    Raises:
        ProtocolError: The array does not end in the buffer.
    """
    size = Struct(">" + code).size
    if count * size > end - pos:
        raise too_many(path, count, end - pos)
    if count > HUGE_RUN and code in ARRAY_CODES:
        return _huge_array(buf, pos, count, code)
    piece = Struct(f">{LONG_RUN}{code}")
    values: list[Any] = []
    for _ in range(count // LONG_RUN):
        values += piece.unpack_from(buf, pos)
        pos += piece.size
    values += Struct(f">{count % LONG_RUN}{code}").unpack_from(buf, pos)
    return values


def _huge_array(buf: Any, pos: int, count: int, code: str) -> array[int]:
    values = array(code)
    size = values.itemsize
    with memoryview(buf) as view:
        # A piece at a time, as above.
        for first in range(0, count, HUGE_RUN):
            piece = array(code)
            piece.frombytes(view[pos + first * size : pos + min(first + HUGE_RUN, count) * size])
            if sys.byteorder == "little":
                piece.byteswap()
            values.extend(piece)
    return values


class PackTable(dict[tuple[int, ...], Callable[..., Any]]):
    """Functions that pack a run of fixed-width values and arrays, made at first use for the arrays' lengths.

    A key has the length of each array. `codes` are `struct` codes. A code such as `*i` stands for an array of
    int32, and the code before it for the array's count: `i`, or `B` in flexible versions, for a uvarint.
    """

    def __init__(self, codes: list[str]) -> None:
        self._codes = codes

    def __missing__(self, lengths: tuple[int, ...]) -> Callable[..., bytes]:
        if max(lengths) >= _LONG_ARRAY:
            return lambda *values: _pack_long(self._codes, lengths, values)
        remaining = iter(lengths)
        codes = [f"{next(remaining)}{code[1]}" if code[0] == "*" else code for code in self._codes]
        function = Struct(">" + "".join(codes)).pack
        if max(lengths) <= _CACHED_LENGTH and len(self) < _CACHED_RUNS:
            self[lengths] = function
        return function


def _pack_long(codes: list[str], lengths: tuple[int, ...], values: tuple[Any, ...]) -> bytes:
    out = bytearray()
    remaining = iter(lengths)
    place = 0
    for position, code in enumerate(codes):
        if code[0] == "*":
            length = next(remaining)
            out += Struct(f">{length}{code[1]}").pack(*values[place : place + length])
            place += length
            continue
        is_uvarint = code == "B" and "".join(codes[position + 1 :]).startswith("*")
        out += uvarint(values[place]) if is_uvarint else Struct(">" + code).pack(values[place])
        place += 1
    return bytes(out)
