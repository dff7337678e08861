"""Interceptors: objects that see every record before it is serialized, and what became of it (KIP-42).

``on_send(record)`` returns the record to go on with; ``on_acknowledgement(metadata, error)`` gets one of the two, on
the sender's thread. An object may have either or both, and ``close()``. What they raise is logged and otherwise
ignored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from kafkalog.client.producer.batch import RecordMetadata
from kafkalog.client.producer.record import ProducerRecord

_log = logging.getLogger(__name__)


class Interceptors:
    """Interceptors in their order."""

    def __init__(self, found: Sequence[Any]) -> None:
        self._all = found
        self._send = [each.on_send for each in found if hasattr(each, "on_send")]
        self._acknowledge = [each.on_acknowledgement for each in found if hasattr(each, "on_acknowledgement")]

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """The record as they leave it; one that fails leaves it as it was."""
        for call in self._send:
            try:
                record = call(record)
            except Exception:
                _log.exception("an interceptor's on_send failed; topic %s", record.topic)
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: Exception | None) -> None:
        """Tell them what became of a record."""
        for call in self._acknowledge:
            try:
                call(metadata, error)
            except Exception:
                _log.exception("an interceptor's on_acknowledgement failed")

    def close(self) -> None:
        """Close those that can be."""
        for each in self._all:
            if hasattr(each, "close"):
                try:
                    each.close()
                except Exception:
                    _log.exception("an interceptor's close failed")
