"""Pauses that grow while one thing fails again and again (KIP-580)."""

from __future__ import annotations

import random
from dataclasses import dataclass

_MOST_DOUBLINGS = 16


@dataclass(frozen=True)
class Backoff:
    """Pauses in seconds. Each is up to a fifth shorter or longer, so that not all try at the same time.

    No pause is longer than `most`. If `first` is not shorter, all pauses are `most`. Java's `ExponentialBackoff`
    computes the same pauses, except for `steady`.
    """

    first: float
    most: float
    steady: int = 1
    """The number of failures that are followed by the first pause. Later pauses double, up to `most`."""

    def pause(self, failures: int, chance: random.Random | None = None) -> float:
        """Return how long to wait after so many failures in a row; `chance` varies the pauses."""
        if self.first >= self.most:
            return self.most
        doublings = min(max(failures - self.steady, 0), _MOST_DOUBLINGS)
        return min(min(self.first * 2.0**doublings, self.most) * (chance or random).uniform(0.8, 1.2), self.most)
