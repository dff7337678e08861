"""A record as a user passes it, before serialization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafkalog.client.producer.batches.batch import RecordMetadata

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
