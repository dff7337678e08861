"""Variable-length integers of record batches v2 (as in Protocol Buffers).

An unsigned value is written seven bits a byte, least significant first, the high bit set on all but the last;
a signed one is zig-zagged first (0, -1, 1, -2 become 0, 1, 2, 3). A varint holds 32 bits in at most 5 bytes,
a varlong 64 bits in at most 10. Padding (a zero last byte) is read, as Kafka reads it; bits beyond the width
are not.
"""

from __future__ import annotations

from kafkalog.records.errors import CorruptRecordError

Buffer = bytes | bytearray | memoryview


_END = 1 << 63


def int64(value: int) -> int:
    """Return `value` as arithmetic of 64 bits has it, which wraps around: Kafka's, and that of the kernels."""
    if -_END <= value < _END:
        return value
    return (value + _END) % (1 << 64) - _END


def append_varint(out: bytearray, value: int) -> None:
    """Append the zig-zag varint (or varlong) of `value`, which must fit 64 bits signed."""
    value = (value << 1) ^ (value >> 63)
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def varint_size(value: int) -> int:
    """Return how many bytes `append_varint` writes for `value`."""
    return ((((value << 1) ^ (value >> 63)).bit_length() + 6) // 7) or 1


def read_varint(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return the 32-bit zig-zag varint at `pos` and the position after it.

    Raises:
        CorruptRecordError: The varint is malformed.
    """
    raw, pos = _read(buf, pos, end, 32)
    return (raw >> 1) ^ -(raw & 1), pos


def read_varlong(buf: Buffer, pos: int, end: int) -> tuple[int, int]:
    """Return the 64-bit zig-zag varlong at `pos` and the position after it.

    Raises:
        CorruptRecordError: The varlong is malformed.
    """
    raw, pos = _read(buf, pos, end, 64)
    return (raw >> 1) ^ -(raw & 1), pos


def _read(buf: Buffer, pos: int, end: int, bits: int) -> tuple[int, int]:
    raw = shift = 0
    while shift < bits:
        if pos >= end:
            raise CorruptRecordError("varint cut off by the end of its record")
        byte = buf[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            if raw >> bits:
                raise CorruptRecordError(f"varint of more than {bits} bits")
            return raw, pos
        shift += 7
    raise CorruptRecordError(f"varint of more than {-(-bits // 7)} bytes")
