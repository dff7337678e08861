"""The producer's counters, kept by the sender's thread, under the names of Kafka's producer metrics."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class Counters:
    """Totals since the producer was made."""

    requests: int = 0
    """Produce requests sent."""
    batches: int = 0
    """Batches acknowledged."""
    batch_bytes: int = 0
    """Bytes of batches as they were sent: compressed, and including retries."""
    records: int = 0
    """Records acknowledged."""
    errors: int = 0
    """Records that were not delivered."""
    retries: int = 0
    """Records in batches that were sent again."""
    splits: int = 0
    """Batches that were split because they were too large."""

    def named(self) -> dict[str, float]:
        """Return the counters by Kafka's names."""
        return {
            "request-total": self.requests,
            "batch-total": self.batches,
            "byte-total": self.batch_bytes,
            "record-send-total": self.records,
            "record-error-total": self.errors,
            "record-retry-total": self.retries,
            "batch-split-total": self.splits,
        }
