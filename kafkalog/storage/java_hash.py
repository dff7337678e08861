"""Java's hash of a text, by which Kafka finds the partition of a key in an internal topic."""

from __future__ import annotations

_INT32 = 1 << 32
_SIGN = 1 << 31


def java_hash(text: str) -> int:
    """Compute Java's `String.hashCode`: over UTF-16 code units, as an int32."""
    data = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(data), 2):
        value = (31 * value + (data[at] << 8 | data[at + 1])) % _INT32
    return value - _INT32 if value & _SIGN else value


def positive(value: int) -> int:
    """Return the absolute value of `value` as an int32; 0 for the least one, as Kafka's `Utils.abs`."""
    value %= _INT32
    signed = value - _INT32 if value & _SIGN else value
    return 0 if signed == -_SIGN else abs(signed)
