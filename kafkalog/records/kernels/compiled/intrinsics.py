"""Intrinsics of the compiled kernels: loads, stores, copies and calls at addresses; and the options of compilation.

Importing this module imports numba.

The kernels' inner loops take addresses instead of arrays: an array argument costs reference counting in each call, and
numba's own indexing a comparison against negative indices for each byte. The intrinsics check nothing; their callers
must.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import llvmlite.ir  # type: ignore[import-untyped]
import numba
import numba.core.cgutils
import numba.extending

# numba infers the types here; its own annotations, where a version has them, describe the Python side.
ir: Any = llvmlite.ir
cgutils: Any = numba.core.cgutils
njit: Callable[..., Callable[[Callable[..., Any]], Any]] = numba.njit
types: Any = numba.types

INT = types.int64
WORDS = types.Array(types.int64, 1, "C")
INTS = types.Array(types.int32, 1, "C")
TABLE = types.Array(types.int64, 2, "C")

INNER: dict[str, Any] = {"nogil": True, "boundscheck": False, "error_model": "numpy"}
"""Options of functions that kernels call."""
INLINE: dict[str, Any] = {**INNER, "forceinline": True}
OPTIONS: dict[str, Any] = INNER
"""Options of kernels that Python calls."""


DEFINITIONS: dict[str, Callable[..., Any]] = {}
"""The definition of each intrinsic, by its name; the checked build makes another intrinsic of it."""


def intrinsic(define: Callable[..., Any]) -> Any:
    """Make an intrinsic of a function of its arguments' types, and keep that function."""
    DEFINITIONS[define.__name__] = define
    make: Callable[[Callable[..., Any]], Any] = numba.extending.intrinsic
    return make(define)


def _pointer(builder: Any, base: Any, at: Any, kind: Any) -> Any:
    return builder.inttoptr(builder.add(base, at), kind.as_pointer())


@intrinsic
def address(typing_context: Any, array: Any) -> Any:
    """Return the address of the first element of a contiguous array or buffer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return builder.ptrtoint(data, ir.IntType(64))

    return types.int64(array), generate


@intrinsic
def byte(typing_context: Any, base: Any, at: Any) -> Any:
    """Load the unsigned byte at base + at."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.zext(builder.load(_pointer(builder, args[0], args[1], ir.IntType(8))), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def big_endian_64(typing_context: Any, base: Any, at: Any) -> Any:
    """Load the big-endian int64 at base + at, aligned or not."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(builder, args[0], args[1], ir.IntType(64)), align=1)
        return builder.bswap(value) if sys.byteorder == "little" else value

    return types.int64(types.int64, types.int64), generate


@intrinsic
def little_endian_32(typing_context: Any, base: Any, at: Any) -> Any:
    """Load the little-endian uint32 at base + at, aligned or not."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(builder, args[0], args[1], ir.IntType(32)), align=1)
        return builder.zext(value if sys.byteorder == "little" else builder.bswap(value), ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def load_32(typing_context: Any, base: Any, index: Any) -> Any:
    """Load element `index` of the int32 array at `base`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = builder.shl(args[1], ir.Constant(ir.IntType(64), 2))
        value = builder.load(_pointer(builder, args[0], at, ir.IntType(32)), align=4)
        return builder.sext(value, ir.IntType(64))

    return types.int64(types.int64, types.int64), generate


@intrinsic
def load_64(typing_context: Any, base: Any, index: Any) -> Any:
    """Load element `index` of the int64 array at `base`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = builder.shl(args[1], ir.Constant(ir.IntType(64), 3))
        return builder.load(_pointer(builder, args[0], at, ir.IntType(64)), align=8)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def prefetch(typing_context: Any, base: Any, at: Any) -> Any:
    """Bring the memory at base + at to the processor's caches; the address need not be valid."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer, word = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer, word, word, word])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        # Arguments: read access, highest locality, data cache.
        builder.call(function, [_pointer(builder, args[0], args[1], ir.IntType(8)), *map(word, (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def store_8(typing_context: Any, base: Any, at: Any, value: Any) -> Any:
    """Store the low byte of `value` at base + at."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.IntType(8)
        builder.store(builder.trunc(args[2], kind), _pointer(builder, args[0], args[1], kind))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def store_32(typing_context: Any, base: Any, index: Any, value: Any) -> Any:
    """Store `value` to element `index` of the int32 array at `base`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.IntType(32)
        at = builder.shl(args[1], ir.Constant(ir.IntType(64), 2))
        builder.store(builder.trunc(args[2], kind), _pointer(builder, args[0], at, kind), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def store_64(typing_context: Any, base: Any, index: Any, value: Any) -> Any:
    """Store `value` to element `index` of the int64 array at `base`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        at = builder.shl(args[1], ir.Constant(ir.IntType(64), 3))
        builder.store(args[2], _pointer(builder, args[0], at, ir.IntType(64)), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _copying(kind: Any) -> Callable[..., Any]:
    """Return code that copies one value of that type, aligned or not."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = builder.load(_pointer(builder, args[1], args[2], kind), align=1)
        builder.store(value, _pointer(builder, args[0], args[2], kind), align=1)
        return context.get_dummy_value()

    return generate


@intrinsic
def copy_block(typing_context: Any, target: Any, source: Any, at: Any) -> Any:
    """Copy 32 bytes from source + at to target + at."""
    return types.void(types.int64, types.int64, types.int64), _copying(ir.VectorType(ir.IntType(8), 32))


@intrinsic
def copy_8(typing_context: Any, target: Any, source: Any, at: Any) -> Any:
    """Copy 8 bytes from source + at to target + at."""
    return types.void(types.int64, types.int64, types.int64), _copying(ir.IntType(64))


@intrinsic
def copy_16(typing_context: Any, target: Any, source: Any, at: Any) -> Any:
    """Copy 16 bytes from source + at to target + at."""
    return types.void(types.int64, types.int64, types.int64), _copying(ir.VectorType(ir.IntType(8), 16))


@intrinsic
def copy(typing_context: Any, target: Any, source: Any, length: Any) -> Any:
    """Copy `length` bytes from one address to another."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.IntType(8).as_pointer()
        cgutils.raw_memcpy(builder, builder.inttoptr(args[0], kind), builder.inttoptr(args[1], kind), args[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def call_crc32c(typing_context: Any, function: Any, data: Any, length: Any) -> Any:
    """Compute CRC-32C of `length` bytes, by a C function (`native.crc32c_address`)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, ones = ir.IntType(32), ir.Constant(ir.IntType(32), 0xFFFFFFFF)
        kind = ir.FunctionType(word, [word, ir.IntType(8).as_pointer(), ir.IntType(64)])
        data = builder.inttoptr(args[1], ir.IntType(8).as_pointer())
        value = builder.call(builder.inttoptr(args[0], kind.as_pointer()), [ones, data, args[2]])
        return builder.zext(builder.xor(value, ones), ir.IntType(64))

    return types.int64(types.int64, types.int64, types.int64), generate


@intrinsic
def call_lz4(typing_context: Any, function: Any, source: Any, target: Any, length: Any, room: Any) -> Any:
    """Decompress an lz4 block by `native.lz4_address`; return its size, negative where it is damaged."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        word, pointer = ir.IntType(32), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(word, [pointer, pointer, word, word])
        places = [builder.inttoptr(each, pointer) for each in args[1:3]]
        sizes = [builder.trunc(each, word) for each in args[3:]]
        value = builder.call(builder.inttoptr(args[0], kind.as_pointer()), [*places, *sizes])
        return builder.sext(value, ir.IntType(64))

    return types.int64(types.int64, types.int64, types.int64, types.int64, types.int64), generate
