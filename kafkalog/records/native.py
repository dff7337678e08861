"""Addresses of C functions that the kernels call: of the checksum and of lz4, as the wheels of these export them.

Where a wheel exports none (another processor, another build) the address is 0, and Python calls the wheel instead.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

_CHECK = b"123456789"
_CHECK_CRC = 0xE3069283
"""CRC-32C of these digits, by which implementations are told apart."""


@cache
def crc32c_address() -> int:
    """Of ``uint32_t f(uint32_t crc, const void *data, unsigned long length)``, by the processor's own instruction.

    It takes and returns the register, that is, the complement of the CRC.
    """
    try:
        import crc32c

        if not crc32c.hardware_based:
            return 0
        # The module's own name for its extension; ctypes gives the handle of what is loaded already.
        function = ctypes.CDLL(crc32c._crc32c.__file__)._crc32c_hw_adler
    except (ImportError, AttributeError, OSError):
        return 0
    function.restype, function.argtypes = ctypes.c_uint32, (ctypes.c_uint32, ctypes.c_char_p, ctypes.c_ulong)
    if function(0xFFFFFFFF, _CHECK, len(_CHECK)) ^ 0xFFFFFFFF != _CHECK_CRC:
        return 0
    return _address(function)


@cache
def lz4_address() -> int:
    """Of ``int LZ4_decompress_safe(const char *source, char *target, int length, int room)``, from lz4.h."""
    try:
        from lz4.block import _block

        return _address(ctypes.CDLL(_block.__file__).LZ4_decompress_safe)
    except (ImportError, AttributeError, OSError):
        return 0


@cache
def lz4_compress_address() -> int:
    """Of ``int LZ4_compress_default(const char *source, char *target, int length, int room)``; 0 comes of no room."""
    try:
        from lz4.block import _block

        return _address(ctypes.CDLL(_block.__file__).LZ4_compress_default)
    except (ImportError, AttributeError, OSError):
        return 0


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0
