"""Pauses that grow while one thing fails again and again (KIP-580)."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Self

from kafkalog.client.config import ClientConfig

_MOST_DOUBLINGS = 16


@dataclass(frozen=True)
class Backoff:
    """Pauses in seconds. Each is up to a fifth shorter or longer, so that clients do not try all at the same time.

    No pause is longer than `most`. If `first` is not shorter, all pauses are `most`. Java's `ExponentialBackoff`
    computes the same pauses, except for `steady`.
    """

    first: float
    most: float
    steady: int = 1
    """The number of failures that are followed by the first pause. Later pauses double, up to `most`."""

    @classmethod
    def of(cls, config: ClientConfig, *, steady: int = 1) -> Self:
        """Make the pauses of a client: from `retry.backoff.ms` to `retry.backoff.max.ms`."""
        return cls(config.retry_backoff, config.retry_backoff_max, steady)

    def pause(self, failures: int) -> float:
        """Return how long to wait after so many failures in a row."""
        if self.first >= self.most:
            return self.most
        doublings = min(max(failures - self.steady, 0), _MOST_DOUBLINGS)
        return min(min(self.first * 2.0**doublings, self.most) * random.uniform(0.8, 1.2), self.most)
