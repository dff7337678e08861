"""The metrics of an old producer: what it counts, and their names, which are those of Kafka 0.8.2.

Source: `ProducerTopicStats`, `ProducerStats`, `ProducerRequestStats` and `ProducerSendThread`.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass
class OldProducerCounters:
    """The counts of a producer since it was made; for any thread."""

    messages: Counter[str] = field(default_factory=Counter)
    """Messages that were given to `send`, by topic."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Messages that the full queue did not take, by topic."""
    failed_sends: int = 0
    """Calls of `send`, or batches of the queue, of which messages were not sent."""
    serialization_errors: int = 0
    """Messages that the serializers did not take."""
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def given(self, topic: str) -> None:
        """Count a message that is to be sent."""
        with self._lock:
            self.messages[topic] += 1

    def was_dropped(self, topic: str) -> None:
        """Count a message for which the queue had no room."""
        with self._lock:
            self.dropped[topic] += 1

    def has_failed(self) -> None:
        """Count a call or a batch that was not sent as a whole."""
        with self._lock:
            self.failed_sends += 1

    def not_serialized(self) -> None:
        """Count a message that cannot be serialized."""
        with self._lock:
            self.serialization_errors += 1

    def named(self, seconds: float, queued: int, totals: Mapping[str, float]) -> dict[str, float]:
        """Return the metrics by their names.

        Tags stand at the end of a name, as in JMX. `.Count` of a meter is its total, `.MeanRate` the total by the
        seconds.

        Args:
            seconds: How long the producer exists.
            queued: How many messages wait in the queue.
            totals: The totals of the producers that send, under their names in `Producer.metrics`.
        """
        found: dict[str, float] = {}

        def meter(name: str, count: float, tags: str = "") -> None:
            found[f"{name}.Count{tags}"] = count
            found[f"{name}.MeanRate{tags}"] = count / seconds if seconds > 0 else 0.0

        with self._lock:
            for name, counts in (("MessagesPerSec", self.messages), ("DroppedMessagesPerSec", self.dropped)):
                meter(name, counts.total())
                for topic, count in sorted(counts.items()):
                    meter(name, count, f",topic={topic}")
            meter("FailedSendsPerSec", self.failed_sends)
            meter("SerializationErrorsPerSec", self.serialization_errors)
        meter("BytesPerSec", totals.get("byte-total", 0))
        meter("ResendsPerSec", totals.get("record-retry-total", 0))
        meter("ProducerRequestRateAndTimeMs", totals.get("request-total", 0))
        found["ProducerQueueSize"] = queued
        return found
