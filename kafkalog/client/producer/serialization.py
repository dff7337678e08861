"""Serialize keys and values: `key.serializer` and `value.serializer` (the encoder of Kafka 0.7 and 0.8).

A serializer is a callable of one value, an object with `serialize(topic, value)` where the topic matters, or the name
of a class: a Python class, or one of Kafka's Java client. None is not serialized. It stays null, which is a tombstone
in a compacted topic.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from kafkalog.client.errors import ClientError, ConfigError

Serialize = Callable[[str, Any], bytes]
"""From topic and value to bytes."""


@runtime_checkable
class Serializer(Protocol):
    """Serializes values. `close()` is called if it is defined."""

    def serialize(self, topic: str, value: Any) -> bytes:
        """Serialize a value that goes to `topic`."""
        ...


class SerializationError(ClientError):
    """A serializer does not take a key or a value; the record was not sent."""


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
"""The serializers of Kafka's Java client, by the names of their classes."""


def serializer(given: Any) -> Serialize:
    """Return the serializer that a property holds, as a function.

    Raises:
        ConfigError: It is not a serializer.
    """
    if isinstance(given, str) and given.rpartition(".")[2] in KNOWN:
        return KNOWN[given.rpartition(".")[2]]
    if isinstance(given, Serializer):
        return given.serialize
    if callable(given):
        return lambda topic, value: given(value)
    raise ConfigError(f"{given!r} is no serializer; expected a callable, or an object with serialize(topic, value)")


def apply(serialize: Serialize | None, topic: str, what: str, value: Any) -> Any:
    """Serialize a key or a value (`what`); None stays None.

    Raises:
        SerializationError: The serializer has raised an exception.
    """
    if serialize is None or value is None:
        return value
    try:
        return serialize(topic, value)
    except Exception as error:
        raise SerializationError(f"cannot serialize the {what} of a record for {topic}: {error}") from error
