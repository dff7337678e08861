"""The intrinsics of `kernels.compiled`, each behind a check of the memory that it touches; other names are as there.

A refused access raises `memory.OutOfBoundsError` from the kernel before anything is read or written. Arrays that a
kernel indexes are checked by numba's own `boundscheck`. No function is forced inline: the checks make functions
large, and compiling them takes long enough.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import numba.extending

from kafkalog.records.kernels.checked.memory import ACCESS_SYMBOL, ARRAY_SYMBOL, OutOfBoundsError, provide
from kafkalog.records.kernels.compiled import intrinsics as unchecked

INT = unchecked.INT
INTS = unchecked.INTS
TABLE = unchecked.TABLE
WORDS = unchecked.WORDS
njit = unchecked.njit
prefetch = unchecked.prefetch
types = unchecked.types
_ir = unchecked.ir
_WORD = _ir.IntType(64)

INNER: dict[str, Any] = {**unchecked.INNER, "boundscheck": True}
INLINE: dict[str, Any] = INNER
OPTIONS: dict[str, Any] = {**INNER, "cache": True}

provide()


class _Access(NamedTuple):
    """The memory that an intrinsic touches: `size` bytes from argument `base` plus argument `offset` times `scale`."""

    base: int
    offset: int | None
    size: int = 0
    """Bytes; 0 where argument `length` has the number."""
    scale: int = 1
    length: int = 0
    writes: bool = False


def _call(builder: Any, symbol: str, *words: Any) -> Any:
    kind = _ir.FunctionType(_WORD, [_WORD] * len(words))
    return builder.call(unchecked.cgutils.get_or_insert_function(builder.module, kind, symbol), words)


def _raise_if(context: Any, builder: Any, refused: Any, text: str) -> None:
    with builder.if_then(builder.icmp_unsigned("!=", refused, _ir.Constant(_WORD, 0)), likely=False):
        context.call_conv.return_user_exc(builder, OutOfBoundsError, (text,))


def _checked(name: str, *accesses: _Access) -> Any:
    """Return the intrinsic of that name with checks of its accesses."""
    define: Callable[..., Any] = unchecked.DEFINITIONS[name]

    @wraps(define)
    def define_checked(typing_context: Any, *args: Any) -> Any:
        signature, generate = define(typing_context, *args)

        def generate_checked(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            for access in accesses:
                address = args[access.base]
                if access.offset is not None:
                    scale = _ir.Constant(_WORD, access.scale)
                    address = builder.add(address, builder.mul(args[access.offset], scale))
                size = _ir.Constant(_WORD, access.size) if access.size else args[access.length]
                writes = _ir.Constant(_WORD, int(access.writes))
                _raise_if(context, builder, _call(builder, ACCESS_SYMBOL, address, size, writes), name)
            return generate(context, builder, signature, args)

        return signature, generate_checked

    return numba.extending.intrinsic(define_checked)


byte = _checked("byte", _Access(0, 1, 1))
big_endian_64 = _checked("big_endian_64", _Access(0, 1, 8))
little_endian_32 = _checked("little_endian_32", _Access(0, 1, 4))
load_32 = _checked("load_32", _Access(0, 1, 4, scale=4))
load_64 = _checked("load_64", _Access(0, 1, 8, scale=8))
store_8 = _checked("store_8", _Access(0, 1, 1, writes=True))
store_32 = _checked("store_32", _Access(0, 1, 4, scale=4, writes=True))
store_64 = _checked("store_64", _Access(0, 1, 8, scale=8, writes=True))
copy_block = _checked("copy_block", _Access(1, 2, 32), _Access(0, 2, 32, writes=True))
copy_8 = _checked("copy_8", _Access(1, 2, 8), _Access(0, 2, 8, writes=True))
copy_16 = _checked("copy_16", _Access(1, 2, 16), _Access(0, 2, 16, writes=True))
copy = _checked("copy", _Access(1, None, length=2), _Access(0, None, length=2, writes=True))
call_crc32c = _checked("call_crc32c", _Access(1, None, length=2))
call_lz4 = _checked("call_lz4", _Access(1, None, length=3), _Access(2, None, length=4, writes=True))


def _define_address(typing_context: Any, array: Any) -> Any:
    """Return the address of the first element of an array or buffer, and let the kernel use the array's memory."""
    signature, generate = unchecked.DEFINITIONS["address"](typing_context, array)
    writable = int(bool(array.mutable))

    def generate_checked(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = generate(context, builder, signature, args)
        given = context.make_array(signature.args[0])(context, builder, args[0])
        size = builder.mul(given.nitems, given.itemsize)
        full = _call(builder, ARRAY_SYMBOL, place, size, _ir.Constant(_WORD, writable))
        _raise_if(context, builder, full, "too many arrays")
        return place

    return signature, generate_checked


address: Any = numba.extending.intrinsic(_define_address)
