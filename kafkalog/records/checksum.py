"""CRC-32C (Castagnoli), the checksum of record batches v2.

`crc32c` computes it with the processor's own instruction, from any buffer without a copy, and releases the GIL for
large inputs. Where its wheel is missing, `crcmod` computes the same, in C if its extension was built, else in Python.
The tests use `crcmod` as the independent oracle.
"""

from __future__ import annotations

from collections.abc import Callable

ReadableBuffer = bytes | bytearray | memoryview


def _crcmod_crc32c() -> Callable[[ReadableBuffer, int], int]:
    """Compute CRC-32C by crcmod, with the signature of `crc32c`."""
    from crcmod import predefined

    function = predefined.mkCrcFun("crc-32c")

    def checksum(data: ReadableBuffer, value: int = 0) -> int:
        # crcmod accepts bytes only, no other buffers.
        return int(function(bytes(data), value))

    return checksum


def _choose() -> Callable[[ReadableBuffer, int], int]:
    try:
        from crc32c import crc32c as hardware
    except ImportError:
        return _crcmod_crc32c()
    return hardware


_crc32c = _choose()


def crc32c(data: ReadableBuffer, value: int = 0) -> int:
    """Return the CRC-32C of `data`, continued from `value` (the result for the bytes before it), in 0..2**32-1."""
    return _crc32c(data, value)
