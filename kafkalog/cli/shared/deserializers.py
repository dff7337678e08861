"""Bytes as text, by the classes of Kafka that its console consumer takes: what their values' `toString` returns."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal

from kafkalog.cli.shared.client_options import UsageError

Deserializer = Callable[[bytes], bytes]
"""Returns the text of bytes.

Raises:
    ValueError: They are no value of its type.
"""

_PACKAGE = "org.apache.kafka.common.serialization."
_UUID = re.compile("-".join([r"([0-9a-fA-F]{1,16})"] * 5))
_UUID_DIGITS = (8, 4, 4, 4, 12)
_UUID_LENGTH = 36
_LEAST_PLAIN, _LEAST_SCIENTIFIC = -3, 7
"""The powers of ten between which numbers have no exponent."""


def _sized(kind: str, size: int, data: bytes) -> bytes:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes are no {kind} of {size} bytes")
    return data


def _integer(size: int) -> Deserializer:
    return lambda data: b"%d" % int.from_bytes(_sized("integer", size, data), "big", signed=True)


def _boolean(data: bytes) -> bytes:
    if data not in (b"\0", b"\1"):
        raise ValueError(f"{len(data)} bytes are no boolean: it is one byte, 0 or 1")
    return b"true" if data == b"\1" else b"false"


def _float(data: bytes) -> bytes:
    import numpy as np

    (value,) = struct.unpack(">f", _sized("float", 4, data))
    return _number(value, str(np.format_float_scientific(np.float32(value))))


def _double(data: bytes) -> bytes:
    (value,) = struct.unpack(">d", _sized("double", 8, data))
    return _number(value, repr(value))


def _number(value: float, shortest: str) -> bytes:
    """Return a number as Java writes it: from 10^-3 to below 10^7 without an exponent.

    `shortest` has the fewest digits that name the number. Where this is one digit, Java takes the nearest number of
    two.
    """
    if not math.isfinite(value):
        return b"NaN" if math.isnan(value) else b"Infinity" if value > 0 else b"-Infinity"
    number = Decimal(shortest).normalize()
    if len(number.as_tuple().digits) == 1:
        number = Decimal(f"{value:.1e}").normalize()
    scale = number.adjusted()
    plain = not number or _LEAST_PLAIN <= scale < _LEAST_SCIENTIFIC
    text = f"{number if plain else number.scaleb(-scale):f}"
    point = "" if "." in text else ".0"
    return f"{text}{point}{'' if plain else f'E{scale}'}".encode()


def _uuid(data: bytes) -> bytes:
    """Return a UUID; Java takes parts with fewer digits or more, and cuts them off on the left."""
    text = data.decode(errors="replace")
    parts = _UUID.fullmatch(text)
    if parts is None or len(text) > _UUID_LENGTH:
        raise ValueError(f"{text[:80]!r} is no UUID")
    return "-".join(
        part.lower().rjust(digits, "0")[-digits:] for part, digits in zip(parts.groups(), _UUID_DIGITS, strict=True)
    ).encode()


def _bytes(data: bytes) -> bytes:
    """Return bytes as Kafka's class Bytes writes them: printable ASCII, and all other bytes in hexadecimal."""
    return "".join(
        chr(byte) if 0x20 <= byte <= 0x7E and byte != ord("\\") else f"\\x{byte:02X}" for byte in data
    ).encode()


def _void(data: bytes) -> bytes:
    raise ValueError(f"{len(data)} bytes are no void: it has no value but null")


DESERIALIZERS: dict[str, Deserializer] = {
    "StringDeserializer": lambda data: data.decode(errors="replace").encode(),
    "LongDeserializer": _integer(8),
    "IntegerDeserializer": _integer(4),
    "ShortDeserializer": _integer(2),
    "FloatDeserializer": _float,
    "DoubleDeserializer": _double,
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "VoidDeserializer": _void,
    "BytesDeserializer": _bytes,
    "ByteArrayDeserializer": lambda data: data,
}
"""The classes of Kafka whose values can be printed; those of ByteArrayDeserializer are printed as they are."""


def find_deserializer(key: str, name: str) -> Deserializer:
    """Return the deserializer of a class of Kafka, which the property `key` names.

    Raises:
        UsageError: It is not one of those that are here.
    """
    found = DESERIALIZERS.get(name.strip().removeprefix(_PACKAGE))
    if found is None:
        raise UsageError(f"--property {key}={name}: expected one of {', '.join(DESERIALIZERS)} of {_PACKAGE[:-1]}")
    return found
