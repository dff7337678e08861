"""What a producer has done so far: counters that the sender's thread keeps, under the names of Kafka's producer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counters:
    """Totals since the producer was made."""

    requests: int = 0
    """Produce requests."""
    batches: int = 0
    """Batches acknowledged."""
    batch_bytes: int = 0
    """Of batches as they were sent, compressed, repetitions included."""
    records: int = 0
    """Acknowledged."""
    errors: int = 0
    """Records that were not delivered."""
    retries: int = 0
    """Records of batches that were sent again."""
    splits: int = 0
    """Batches that were too large."""

    def named(self) -> dict[str, float]:
        """The counters by Kafka's names."""
        return {
            "request-total": self.requests,
            "batch-total": self.batches,
            "byte-total": self.batch_bytes,
            "record-send-total": self.records,
            "record-error-total": self.errors,
            "record-retry-total": self.retries,
            "batch-split-total": self.splits,
        }
