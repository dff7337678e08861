"""Measures of recent usage, and of how long to wait until it is within the quota.

All times are in milliseconds. Source: Kafka's `Rate`, `SampledStat`, `TokenBucket` and `QuotaUtils`.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from broker.quota.entities import MAX_INT


@dataclass(frozen=True, slots=True)
class Window:
    """The time over which usage is averaged: `samples` samples of `sample_ms` each, including the current one."""

    samples: int
    sample_ms: int

    @property
    def span_ms(self) -> int:
        return self.samples * self.sample_ms


class Measure(Protocol):
    """The usage of one share of a quota."""

    last_ms: int
    """The time of the last record."""

    def record(self, amount: float, limit: float, now_ms: int) -> int:
        """Record `amount`; return how long to wait (ms) until usage is at most `limit` per second.

        The result is at most 2**31 - 1 ms, the largest value in a response.
        """

    def is_over(self, limit: float, now_ms: int) -> bool:
        """Return whether the measure has no memory of past usage, so that a new one would behave the same."""

    def per_second(self, limit: float, now_ms: int) -> float:
        """Return the value that is compared with the quota. Any thread may call this; it changes no state."""


@dataclass(slots=True)
class _Sample:
    start_ms: int
    last_ms: int
    total: float = 0.0


class Rate:
    """The average usage per second over the window.

    A sample that was last changed a whole window ago is forgotten. Samples that do not exist yet count as empty, so
    that the first burst is averaged over the whole window.
    """

    __slots__ = ("_samples", "_window", "last_ms")

    def __init__(self, window: Window, now_ms: int) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque()
        self.last_ms = now_ms

    def record(self, amount: float, limit: float, now_ms: int) -> int:
        self.add(amount, now_ms)
        total, span_ms = self._total(now_ms)
        rate = total / span_ms * 1000
        if rate <= limit:
            return 0
        # With a limit of 0 any usage is too much for ever.
        return _milliseconds((rate - limit) / limit * span_ms if limit else math.inf)

    def is_over(self, limit: float, now_ms: int) -> bool:
        return now_ms - self.last_ms >= self._window.span_ms

    def add(self, amount: float, now_ms: int) -> None:
        """Record `amount`, which may be negative."""
        samples = self._samples
        self.last_ms = now_ms
        while samples and not self._counts(samples[0], now_ms):
            samples.popleft()
        if not samples or now_ms - samples[-1].start_ms >= self._window.sample_ms:
            samples.append(_Sample(now_ms, now_ms))
        samples[-1].total += amount
        samples[-1].last_ms = now_ms

    def per_second(self, limit: float, now_ms: int) -> float:
        total, span_ms = self._total(now_ms)
        return total / span_ms * 1000

    def _total(self, now_ms: int) -> tuple[float, int]:
        """Return the sum of the samples and the time (ms, at least 1) that they cover, including missing samples."""
        window = self._window
        # A copy in one step: metrics are read on another thread.
        samples = [sample for sample in list(self._samples) if self._counts(sample, now_ms)]
        elapsed = now_ms - samples[0].start_ms if samples else 0
        missing = window.samples - 1 - elapsed // window.sample_ms
        return sum(sample.total for sample in samples), max(elapsed + max(missing, 0) * window.sample_ms, 1)

    def _counts(self, sample: _Sample, now_ms: int) -> bool:
        return now_ms - sample.last_ms < self._window.span_ms


class TokenBucket:
    """Tokens that accrue at the quota's rate, up to those of the whole window. Usage takes tokens, also on credit.

    Nothing more is granted while tokens are owed (KIP-599).
    """

    __slots__ = ("_tokens", "_window", "last_ms")

    def __init__(self, window: Window, now_ms: int) -> None:
        self._window = window
        self._tokens = float("inf")
        self.last_ms = now_ms

    def record(self, amount: float, limit: float, now_ms: int) -> int:
        self._tokens = self.per_second(limit, now_ms) - amount
        self.last_ms = now_ms
        return self.wait_ms(limit, now_ms)

    def per_second(self, limit: float, now_ms: int) -> float:
        """Return the number of tokens left; a negative number is owed."""
        burst = self._burst(limit)
        return min(burst, self._tokens + limit * max(0, now_ms - self.last_ms) / 1000)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """Return how long (ms) it takes until no tokens are owed."""
        return max(0, _milliseconds(-self.per_second(limit, now_ms) / limit * 1000))

    def is_over(self, limit: float, now_ms: int) -> bool:
        return self.per_second(limit, now_ms) >= self._burst(limit)

    def _burst(self, limit: float) -> float:
        # The largest quotas times the window would overflow a float.
        return min(limit * self._window.span_ms / 1000, sys.float_info.max)


def _milliseconds(number: float) -> int:
    """Round as Java does, half up, and limit the result to an int32."""
    return MAX_INT if number >= MAX_INT else math.floor(number + 0.5)
