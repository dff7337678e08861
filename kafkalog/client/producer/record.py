"""A record as a user gives it, before it is bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from kafkalog.client.producer.batch import RecordMetadata

OnDelivery = Callable[[RecordMetadata | None, Exception | None], object]
"""Called once with where a record is, or with what kept it from being delivered; the other one is None."""


class ProducerRecord(NamedTuple):
    """What `Producer.send` is called with; ``timestamp`` in ms, None: when it is sent."""

    topic: str
    value: Any = None
    key: Any = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp: int | None = None
    partition: int | None = None
