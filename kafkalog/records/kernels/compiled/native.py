"""Addresses of the C functions that kernels call: the checksum and lz4, as their wheels export them (crc32c, lz4.h).

Where a wheel exports no such function (another processor, another build), or the function fails a test, the address is
0, and Python calls the wheel instead.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_CHECK = b"123456789"
_CHECK_CRC = 0xE3069283
"""CRC-32C of these digits, which tells implementations apart."""
_CHECK_BLOCK = b"\x90" + _CHECK
"""An lz4 block of these digits: nine literals."""


@cache
def crc32c_address() -> int:
    """Return the address of `uint32_t f(uint32_t crc, const void *data, unsigned long length)`.

    It computes CRC-32C by the processor's own instruction. It takes and returns the register, that is, the complement
    of the CRC.
    """
    function = _crc32c()
    if function is None:
        return 0
    function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_ulong)
    if function(0xFFFFFFFF, _CHECK, len(_CHECK)) ^ 0xFFFFFFFF != _CHECK_CRC:
        return 0
    return _address(function)


@cache
def lz4_address() -> int:
    """Return the address of `int LZ4_decompress_safe(const char *source, char *target, int length, int room)`."""
    function = _lz4("LZ4_decompress_safe")
    return 0 if function is None or _called(function, _CHECK_BLOCK, len(_CHECK)) != _CHECK else _address(function)


@cache
def lz4_compress_address() -> int:
    """Return the address of `int LZ4_compress_default(const char *source, char *target, int length, int room)`.

    The C function returns 0 where the room is too small.
    """
    function = _lz4("LZ4_compress_default")
    return 0 if function is None or _called(function, _CHECK, 64) != _CHECK_BLOCK else _address(function)


def _crc32c() -> Any:
    try:
        import crc32c

        if not crc32c.hardware_based:
            return None
        # The module's own name for its extension; ctypes gives the handle of what is loaded already.
        return ctypes.CDLL(crc32c._crc32c.__file__)._crc32c_hw_adler
    except (ImportError, AttributeError, OSError):
        return None


def _lz4(name: str) -> Any:
    try:
        from lz4.block import _block

        function = getattr(ctypes.CDLL(_block.__file__), name)
    except (ImportError, AttributeError, OSError):
        return None
    function.restype, function.argtypes = ctypes.c_int, (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_int)
    return function


def _called(function: Any, source: bytes, room: int) -> bytes:
    """Call an lz4 function with `source`; return its output, empty where it fails."""
    target = ctypes.create_string_buffer(room)
    size = function(source, target, len(source), room)
    return target.raw[: max(size, 0)]


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
