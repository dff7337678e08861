"""The memory that kernels were given, and the check of every access to it.

A table of int64 lists ranges of addresses. Python lends ranges before a call (`lend`); a kernel that takes an array
adds the array's range when it asks for its address. Each checked intrinsic calls the function `ACCESS_SYMBOL`. It looks
for one range that holds all the bytes of the access, and that is writable if the access writes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from threading import RLock
from typing import Any, NamedTuple

import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numpy as np

from kafkalog.records.kernels.compiled.intrinsics import load_64, store_64

ACCESS_SYMBOL = "kafkalog_checked_access"
ARRAY_SYMBOL = "kafkalog_checked_array"
"""Names by which compiled code finds the two functions. Cached addresses would be wrong in another process."""

_COUNT, _ADDRESS, _SIZE, _WRITES, _RANGES = range(5)
"""Words of the table: the number of ranges, the access that was refused, then start, end and kind of each range."""
_START, _END, _WRITABLE, _RANGE = range(4)
_MOST = 16384
_TABLE = np.zeros(_RANGES + _MOST * _RANGE, np.int64)
_AT = _TABLE.ctypes.data

_lent: dict[Any, tuple[int, int, bool]] = {}
_lock = RLock()


class OutOfBoundsError(AssertionError):
    """A kernel was about to touch memory that it was not given."""


class Range(NamedTuple):
    """Memory that kernels may use."""

    address: int
    size: int
    writable: bool = False


def lend(key: Any, given: Range) -> None:
    """Let kernels use a range from now on; it replaces what was lent under the same key."""
    _lent[key] = (given.address, given.address + given.size, given.writable)


def take_back() -> None:
    """Withdraw everything that was lent."""
    _lent.clear()


def call(kernel: Callable[..., Any], *args: Any, also: tuple[Range, ...] = ()) -> Any:
    """Call a checked kernel, which may use its arrays, the lent ranges, and the ranges in `also`.

    Raises:
        OutOfBoundsError: It tried to use other memory. It was stopped before it did.
    """
    with _lock:
        ranges = [*_lent.values(), *((each.address, each.address + each.size, each.writable) for each in also)]
        _TABLE[_COUNT] = len(ranges)
        if ranges:
            _TABLE[_RANGES : _RANGES + _RANGE * len(ranges)] = np.array(ranges, np.int64).reshape(-1)
        try:
            return kernel(*args)
        except OutOfBoundsError:
            verb = "writes" if _TABLE[_WRITES] else "reads"
            # The table has signed numbers. An address far before an array may be below zero, and wraps around.
            address = int(_TABLE[_ADDRESS]) % (1 << 64)
            text = f"the kernel {verb} {_TABLE[_SIZE]} bytes at {address:#x}, which it was not given"
            raise OutOfBoundsError(text) from None
        finally:
            _TABLE[_COUNT] = 0


def _refuses(address: int, size: int, writes: int) -> int:
    """Return 1 and write down the access where no range holds it; else 0."""
    if size == 0:
        return 0
    if size > 0:
        at = _RANGES
        for _ in range(load_64(_AT, _COUNT)):
            start, end = load_64(_AT, at + _START), load_64(_AT, at + _END)
            if start <= address and size <= end - address and writes <= load_64(_AT, at + _WRITABLE):
                return 0
            at += _RANGE
    store_64(_AT, _ADDRESS, address)
    store_64(_AT, _SIZE, size)
    store_64(_AT, _WRITES, writes)
    return 1


def _adds(address: int, size: int, writable: int) -> int:
    """Add an array's range to the table, unless it is there; return 1 where the table is full."""
    count = load_64(_AT, _COUNT)
    at = _RANGES
    for _ in range(count):
        start, end = load_64(_AT, at + _START), load_64(_AT, at + _END)
        if start == address and end == address + size and load_64(_AT, at + _WRITABLE) >= writable:
            return 0
        at += _RANGE
    if count == _MOST:
        return 1
    store_64(_AT, at + _START, address)
    store_64(_AT, at + _END, address + size)
    store_64(_AT, at + _WRITABLE, writable)
    store_64(_AT, _COUNT, count + 1)
    return 0


_FUNCTIONS: list[Any] = []
"""The compiled functions, which must live as long as their callers."""


def provide() -> None:
    """Compile the two functions and make them known to compiled code by their names, once a process."""
    if _FUNCTIONS:
        return
    for symbol, function in ((ACCESS_SYMBOL, _refuses), (ARRAY_SYMBOL, _adds)):
        compiled: Any = numba.cfunc("int64(int64, int64, int64)")(function)
        _FUNCTIONS.append(compiled)
        llvmlite.binding.add_symbol(symbol, ctypes.cast(compiled.ctypes, ctypes.c_void_p).value)
