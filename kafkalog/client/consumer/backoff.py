"""Pauses that grow while one thing fails again and again (KIP-580)."""

from __future__ import annotations

import random

from kafkalog.client.config import ClientConfig

_STEADY_TRIES = 3
"""The tries after which the pause begins to grow. Most changes of leaders are over by then."""


class Backoff:
    """The pauses of one client: `retry.backoff.ms` at first, and up to `retry.backoff.max.ms` after more failures.

    All pauses of a client differ from those of other clients by one factor, so that clients that fail at the same time
    try at different times.
    """

    def __init__(self, config: ClientConfig) -> None:
        self._least, self._most = config.retry_backoff, config.retry_backoff_max
        self._factor = random.uniform(0.8, 1.2)

    def pause(self, failures: int) -> float:
        """Return how many seconds to wait after so many failures in a row."""
        doublings = min(max(failures - _STEADY_TRIES, 0), 16)
        return min(self._least * 2.0**doublings, self._most) * self._factor
