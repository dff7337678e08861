"""Bytes as text, by the classes of Kafka that its console consumer takes: what their values' `toString` returns."""

from __future__ import annotations

import codecs
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal

from kafkalog.cli.shared.client_options import UsageError

Deserializer = Callable[[bytes], bytes]
"""Returns the text of bytes.

Raises:
    ValueError: They are no value of its type.
"""

Charset = Callable[[bytes], str]
"""Returns the text of bytes; what the encoding does not have becomes U+FFFD."""

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


def _string(charset: Charset) -> Deserializer:
    return lambda data: charset(data).encode()


def _uuid(charset: Charset) -> Deserializer:
    return lambda data: _uuid_of(charset(data))


def _uuid_of(text: str) -> bytes:
    """Return a UUID; Java takes parts with fewer digits or more, and cuts them off on the left."""
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


def _byte_buffer(data: bytes) -> bytes:
    """Return the text of a ByteBuffer of Java: its position, limit and capacity, and not its bytes."""
    return b"java.nio.HeapByteBuffer[pos=0 lim=%d cap=%d]" % (len(data), len(data))


def _list(inner: Deserializer, size: int | None) -> Deserializer:
    """Return the deserializer of lists of ListSerializer; `size` is that of an element in bytes, if all have the same.

    A byte says whether the elements have one size. Then come the indexes of nulls, and the elements. Otherwise the
    length of each element stands before it, and is -1 for null.
    """

    def text(data: bytes) -> bytes:
        elements = _Elements(data)
        strategy = elements.take(1)[0]
        if strategy > _VARIABLE_SIZE or (strategy == _CONSTANT_SIZE and size is None):
            raise ValueError(f"{len(data)} bytes are no list of this type: they begin with the byte {strategy}")
        nulls = {elements.number() for _ in range(elements.count(4))} if strategy == _CONSTANT_SIZE else set()
        found = []
        for index in range(elements.count(0)):
            length = elements.number() if strategy == _VARIABLE_SIZE else size or 0
            is_null = length == _NULL or index in nulls
            found.append(b"null" if is_null else inner(elements.take(length)))
        return b"[%b]" % b", ".join(found)

    return text


class _Elements:
    """Reads the bytes of a list from the beginning."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, size: int) -> bytes:
        """Return the next bytes.

        Raises:
            ValueError: There are not that many.
        """
        end = self._at + size
        if not self._at <= end <= len(self._data):
            raise ValueError(f"{len(self._data)} bytes are no whole list")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def number(self) -> int:
        return int.from_bytes(self.take(4), "big", signed=True)

    def count(self, size: int) -> int:
        """Return a number of things that have at least `size` bytes each.

        Raises:
            ValueError: There are not that many bytes. Where elements have one size, a null has only its index.
        """
        count = self.number()
        if count < 0 or count * size > len(self._data) or count > len(self._data):
            raise ValueError(f"{len(self._data)} bytes are no whole list")
        return count


_CONSTANT_SIZE, _VARIABLE_SIZE = 0, 1
_NULL = -1
_SIZES = {"Short": 2, "Integer": 4, "Float": 4, "Long": 8, "Double": 8, "UUID": _UUID_LENGTH}
"""The types whose lists have elements of one size in bytes."""
_LISTS = frozenset(f"java.util.{name}" for name in ("ArrayList", "LinkedList", "Vector", "Stack"))
"""Classes of lists, whose texts are the same."""
_WITH_CHARSET: dict[str, Callable[[Charset], Deserializer]] = {"StringDeserializer": _string, "UUIDDeserializer": _uuid}
_OTHERS: dict[str, Deserializer] = {
    "LongDeserializer": _integer(8),
    "IntegerDeserializer": _integer(4),
    "ShortDeserializer": _integer(2),
    "FloatDeserializer": _float,
    "DoubleDeserializer": _double,
    "BooleanDeserializer": _boolean,
    "VoidDeserializer": _void,
    "BytesDeserializer": _bytes,
    "ByteBufferDeserializer": _byte_buffer,
    "ByteArrayDeserializer": lambda data: data,
}
"""Further classes. Values of ByteArrayDeserializer are printed as they are."""
_LIST = "ListDeserializer"
_MARKS = {
    "utf-16": (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE),
    "utf-32": (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE),
}
"""The marks of the byte order, by the encodings that may have one."""
_NAMES = ", ".join((*_WITH_CHARSET, *_OTHERS, _LIST))


def find_deserializer(key: str, name: str, properties: Mapping[str, str] | None = None) -> Deserializer:
    """Return the deserializer of a class of Kafka.

    Args:
        key: The property that names the class, such as `key.deserializer`.
        name: The class.
        properties: The class's own properties. Those of the command have the key and a dot before them, as in Kafka:
            `key.deserializer.deserializer.encoding`.

    Raises:
        UsageError: The class is not one of those that are here, or a property cannot be used.
    """
    own = dict(properties or {})
    part = "key" if key == "key.deserializer" else "value"
    try:
        found = _find(name.strip(), part, own)
    except ValueError as error:
        raise UsageError(f"--property {key}={name}: {error}") from None
    if own:
        raise UsageError(f"--property {key}.{next(iter(own))}: {name} has no such property")
    return found


def _find(name: str, part: str, own: dict[str, str]) -> Deserializer:
    """Return the deserializer of a class, and take its properties out of `own`.

    Raises:
        ValueError: The class or the value of a property is not known.
    """
    short = name.removeprefix(_PACKAGE)
    if short in _WITH_CHARSET:
        return _WITH_CHARSET[short](_charset(part, own))
    if short == _LIST:
        return _find_list(part, own)
    if short not in _OTHERS:
        raise ValueError(f"expected one of {_NAMES} of {_PACKAGE[:-1]}")
    return _OTHERS[short]


def _charset(part: str, own: dict[str, str]) -> Charset:
    common = own.pop("deserializer.encoding", "UTF-8")
    name = own.pop(f"{part}.deserializer.encoding", common)
    try:
        b"a".decode(name, errors="replace")
        # The form with a byte order is known by this name only: `utf-16-be`, not `utf16-be`.
        canonical = codecs.lookup(name).name
    except (LookupError, UnicodeError):
        raise ValueError(f"the encoding {name} is not known") from None
    marks = _MARKS.get(canonical)

    def text(data: bytes) -> str:
        # Java reads big-endian where no mark says otherwise.
        is_big = marks is not None and not data.startswith(marks)
        return data.decode(f"{canonical}-be" if is_big else name, errors="replace")

    return text


def _find_list(part: str, own: dict[str, str]) -> Deserializer:
    """Return the deserializer of lists, by the properties that name the type of the list and of its elements."""
    kind_key, inner_key = (f"default.list.{part}.serde.{what}" for what in ("type", "inner"))
    kind, inner = own.pop(kind_key, ""), own.pop(inner_key, "")
    if kind not in _LISTS:
        raise ValueError(f"it needs the property {kind_key}, which is one of {', '.join(sorted(_LISTS))}")
    start, end = f"{_PACKAGE}Serdes$", "Serde"
    element = inner.removeprefix(start).removesuffix(end)
    if inner != f"{start}{element}{end}" or element in ("ByteArray", "List"):
        raise ValueError(f"it needs the property {inner_key}, such as {start}String{end}")
    return _list(_find(f"{element}Deserializer", part, own), _SIZES.get(element))
