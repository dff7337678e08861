"""What the compiled kernels are made of: types, loads, varints. Importing this module imports numba.

Helpers take addresses instead of arrays: an array argument costs reference counting in each call, and numba's own
indexing a comparison against negative indices for each byte. Only the kernels make addresses, of arrays they were
given. Each byte is read only after its position was compared with its record's end, and each record's end with its
section's. Lengths are compared with what is left, never added to a position first, so no sum overflows.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from . import status as s

BYTES = types.Array(types.uint8, 1, "C", readonly=True)
OUT = types.Array(types.uint8, 1, "C")
I32 = types.Array(types.int32, 1, "C")
I32_IN = types.Array(types.int32, 1, "C", readonly=True)
I64 = types.Array(types.int64, 1, "C")
I64_IN = types.Array(types.int64, 1, "C", readonly=True)
TABLE = types.Array(types.int64, 2, "C")
INT = types.int64
OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "error_model": "numpy"}
INLINE: dict[str, Any] = {**OPTIONS, "forceinline": True}

MICROS_MAX = 9223372036854775
"""The largest number of milliseconds whose microseconds fit 64 bits; larger ones are taken for this."""


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Where the first element of a contiguous array lies."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


@intrinsic
def byte(typing_context: Any, data: Any, at: Any) -> Any:
    """The byte at data + at."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(builder.add(args[0], args[1]), ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def big_endian_64(typing_context: Any, data: Any, at: Any) -> Any:
    """The big-endian int64 at data + at."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(builder.add(args[0], args[1]), ir.IntType(64).as_pointer())
        value = builder.load(pointer)
        value.align = 1
        return builder.bswap(value) if sys.byteorder == "little" else value

    return types.int64(types.int64, types.int64), generate


@intrinsic
def copy(typing_context: Any, target: Any, source: Any, length: Any) -> Any:
    """Copy `length` bytes between two addresses."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(
            builder, builder.inttoptr(args[0], byte), builder.inttoptr(args[1], byte), args[2], 1
        )
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@njit(**OPTIONS)  # type: ignore[misc]
def varint_slow(data: Any, at: Any, end: Any, bits: Any) -> Any:
    raw = np.uint64(0)
    shift = 0
    while shift < bits:
        if at >= end:
            return 0, -s.TRUNCATED
        byte = byte(data, at)
        at += 1
        raw |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            # What the last byte may hold beyond the width was shifted out of 64 bits, or lies above 32.
            if (bits == 64 and shift == 63 and byte > 1) or (bits == 32 and raw >> np.uint64(32)):
                return 0, -s.BAD_VARINT
            return np.int64(raw >> np.uint64(1)) ^ -np.int64(raw & np.uint64(1)), at
        shift += 7
    return 0, -s.BAD_VARINT


@njit(**INLINE)  # type: ignore[misc]
def varint(data: Any, at: Any, end: Any) -> Any:
    """The 32-bit varint at `at` and the position after it, or 0 and a negative status."""
    if at + 2 <= end:
        first = byte(data, at)
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        second = byte(data, at + 1)
        if second < 0x80:
            first = (first & 0x7F) | second << 7
            return (first >> 1) ^ -(first & 1), at + 2
    return varint_slow(data, at, end, 32)


@njit(**INLINE)  # type: ignore[misc]
def varlong(data: Any, at: Any, end: Any) -> Any:
    """The 64-bit varlong at `at` and the position after it, or 0 and a negative status."""
    if at + 2 <= end:
        first = byte(data, at)
        if first < 0x80:
            return (first >> 1) ^ -(first & 1), at + 1
        second = byte(data, at + 1)
        if second < 0x80:
            first = (first & 0x7F) | second << 7
            return (first >> 1) ^ -(first & 1), at + 2
    return varint_slow(data, at, end, 64)


@njit(**INLINE)  # type: ignore[misc]
def skip_bytes(data: Any, at: Any, end: Any) -> Any:
    """Length (-1 for null) of the length-prefixed bytes at `at` and where they begin, or 0 and a negative status."""
    length, at = varint(data, at, end)
    if at < 0:
        return 0, at
    if length < -1:
        return 0, -s.BAD_LENGTH
    if length > end - at:
        return 0, -s.TRUNCATED
    return length, at


@njit(**INLINE)  # type: ignore[misc]
def record_end(data: Any, at: Any, end: Any) -> Any:
    """Where the record at `at` ends and where its timestamp delta begins, or 0 and a negative status."""
    if at >= end:
        return 0, -s.TOO_FEW
    length, at = varint(data, at, end)
    if at < 0:
        return 0, at
    if length < 0:
        return 0, -s.BAD_LENGTH
    if length > end - at or length < 1:
        return 0, -s.TRUNCATED
    return at + length, at + 1


@njit(**OPTIONS)  # type: ignore[misc]
def skip_headers(data: Any, at: Any, end: Any) -> Any:
    """Walk the headers at `at`, which must fill their record to `end`: 0 or a status, and how many there are.

    Also the bytes of their keys and of their values.
    """
    count, at = varint(data, at, end)
    if at < 0:
        return -at, 0, 0, 0
    if count < 0 or 2 * count > end - at:
        return s.BAD_HEADERS, 0, 0, 0
    key_bytes = value_bytes = 0
    for _ in range(count):
        length, at = skip_bytes(data, at, end)
        if at < 0:
            return -at, 0, 0, 0
        if length < 0:
            return s.NO_HEADER_KEY, 0, 0, 0
        key_bytes += length
        at += length
        length, at = skip_bytes(data, at, end)
        if at < 0:
            return -at, 0, 0, 0
        if length > 0:
            value_bytes += length
            at += length
    if at != end:
        return s.RECORD_SIZE, 0, 0, 0
    return s.OK, count, key_bytes, value_bytes


@njit(**INLINE)  # type: ignore[misc]
def micros(base: Any, delta: Any) -> Any:
    """(base + delta) ms in microseconds, kept within 64 bits."""
    total = base + delta
    if (base ^ total) & (delta ^ total) < 0:
        total = MICROS_MAX if base >= 0 else -MICROS_MAX
    return max(min(total, MICROS_MAX), -MICROS_MAX) * 1000
