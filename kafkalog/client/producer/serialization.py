"""Keys and values to bytes: ``key.serializer`` and ``value.serializer`` (the encoder of Kafka 0.7 and 0.8).

A serializer is a callable of one value, or an object with ``serialize(topic, value)``, for which the topic may make a
difference; or the name of a class, in Python or one of those that Kafka's Java client has. None is not serialized: it
stays null, which is a tombstone in a compacted topic.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from kafkalog.client.errors import ClientError, ConfigError

Serialize = Callable[[str, Any], bytes]
"""Topic and value to bytes."""


@runtime_checkable
class Serializer(Protocol):
    """What makes bytes of values; ``close()`` is called, too, where there is one."""

    def serialize(self, topic: str, value: Any) -> bytes:
        """The bytes of a value that goes to ``topic``."""
        ...


class SerializationError(ClientError):
    """A key or a value that its serializer does not take; the record was not sent."""


def _bytes(topic: str, value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(f"expected bytes, not {type(value).__name__}")


def _string(topic: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"expected str, not {type(value).__name__}")


def _uuid(topic: str, value: Any) -> bytes:
    return str(value if isinstance(value, uuid.UUID) else uuid.UUID(value)).encode()


def _void(topic: str, value: Any) -> bytes:
    raise TypeError("expected None")


def _packed(form: str) -> Serialize:
    packer = struct.Struct(form)
    return lambda topic, value: packer.pack(value)


KNOWN: Mapping[str, Serialize] = {
    "ByteArraySerializer": _bytes,
    "BytesSerializer": _bytes,
    "ByteBufferSerializer": _bytes,
    "StringSerializer": _string,
    "ShortSerializer": _packed(">h"),
    "IntegerSerializer": _packed(">i"),
    "LongSerializer": _packed(">q"),
    "FloatSerializer": _packed(">f"),
    "DoubleSerializer": _packed(">d"),
    "BooleanSerializer": lambda topic, value: b"\1" if value else b"\0",
    "UUIDSerializer": _uuid,
    "VoidSerializer": _void,
}
"""Those of Kafka's Java client, by the names of their classes."""


def serializer(given: Any) -> Serialize:
    """What a property holds as a function; ConfigError where it is no serializer."""
    if isinstance(given, str) and given.rpartition(".")[2] in KNOWN:
        return KNOWN[given.rpartition(".")[2]]
    if isinstance(given, Serializer):
        return given.serialize
    if callable(given):
        return lambda topic, value: given(value)
    raise ConfigError(f"{given!r} is no serializer; expected a callable, or an object with serialize(topic, value)")


def apply(serialize: Serialize | None, topic: str, what: str, value: Any) -> Any:
    """The bytes of a key or value (``what``), None for None. SerializationError."""
    if serialize is None or value is None:
        return value
    try:
        return serialize(topic, value)
    except Exception as error:
        raise SerializationError(f"cannot serialize the {what} of a record for {topic}: {error}") from error
