"""A record as a user passes it, and the checks of what it holds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from kafkalog.client.producer.batches.batch import RecordMetadata
from kafkalog.client.producer.batches.record_encoding import HEADER_OVERHEAD, Headers

OnDelivery = Callable[[RecordMetadata | None, Exception | None], object]
"""Called once with the record's metadata or with the error of its delivery; the other argument is None."""


class ProducerRecord(NamedTuple):
    """The arguments of `Producer.send`; `timestamp` is in ms, None for the time of sending."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None
    partition: int | None = None


def checked_bytes(data: object, what: str) -> bytes:
    """Return bytes that nobody changes any more; `what` names them in the error.

    Raises:
        TypeError: They are no bytes.
    """
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data)
    raise TypeError(f"a record's {what} must be bytes or None, not {type(data).__name__}")


def checked_headers(headers: Iterable[tuple[str, bytes | None]]) -> tuple[Headers, int]:
    """Copy headers, so that nobody changes them any more; return them and the maximum of bytes that they take.

    Raises:
        TypeError: A key is no str, or a value no bytes.
    """
    kept: list[tuple[str, bytes | None]] = []
    size = 0
    for name, value in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's key must be str, not {type(name).__name__}")
        data = value if value is None else checked_bytes(value, "header")
        kept.append((name, data))
        size += HEADER_OVERHEAD + len(name.encode()) + len(data or b"")
    return tuple(kept), size


def check_timestamp(timestamp: int) -> int:
    """Check a time in ms; return it as an int.

    Raises:
        TypeError: It is no integer.
        ValueError: The format has no such time.
    """
    number = operator.index(timestamp)
    if not 0 <= number < 1 << 63:
        raise ValueError(f"timestamp {timestamp} is no time in ms")
    return number
