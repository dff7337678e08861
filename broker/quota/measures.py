"""What was used lately, and how long to wait until it is no more than the quota.

All times are milliseconds. Source: Kafka's ``Rate``, ``SampledStat``, ``TokenBucket`` and ``QuotaUtils``.
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
    """``samples`` windows of ``sample_ms`` each are looked back on, the last of them the present one."""

    samples: int
    sample_ms: int

    @property
    def span_ms(self) -> int:
        return self.samples * self.sample_ms


class Measure(Protocol):
    """What one share of a quota has used."""

    last_ms: int
    """When something was last recorded."""

    def record(self, amount: float, limit: float, now_ms: int) -> int:
        """Take ``amount`` into account; how long to wait (ms) for what was used to be at most ``limit`` a second.

        No longer than the 2**31 - 1 ms that a response can tell.
        """

    def is_over(self, limit: float, now_ms: int) -> bool:
        """Whether a new measure would say the same from now on."""

    def per_second(self, limit: float, now_ms: int) -> float:
        """What the quota is compared with. Changes nothing; on any thread."""


@dataclass(slots=True)
class _Sample:
    start_ms: int
    last_ms: int
    total: float = 0.0


class Rate:
    """What is used a second, on average over the windows.

    A window that has seen nothing for the whole span is forgotten. Windows that there are not yet count as empty ones,
    so that the first burst is compared with the whole span.
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
        return 0 if rate <= limit else _milliseconds((rate - limit) / limit * span_ms)

    def is_over(self, limit: float, now_ms: int) -> bool:
        return now_ms - self.last_ms >= self._window.span_ms

    def add(self, amount: float, now_ms: int) -> None:
        """Take ``amount``, which may be less than nothing, into account."""
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
        """The sum of the samples, and the time (ms, at least 1) that they are of, missing windows included."""
        window = self._window
        # A copy in one step: metrics are read on another thread.
        samples = [sample for sample in list(self._samples) if self._counts(sample, now_ms)]
        elapsed = now_ms - samples[0].start_ms if samples else 0
        missing = window.samples - 1 - elapsed // window.sample_ms
        return sum(sample.total for sample in samples), max(elapsed + max(missing, 0) * window.sample_ms, 1)

    def _counts(self, sample: _Sample, now_ms: int) -> bool:
        return now_ms - sample.last_ms < self._window.span_ms


class TokenBucket:
    """Tokens that come at the quota's rate, up to those of the whole span; what is used takes them, on credit too.

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
        """The tokens that are left; fewer than 0 are owed."""
        burst = self._burst(limit)
        return min(burst, self._tokens + limit * max(0, now_ms - self.last_ms) / 1000)

    def wait_ms(self, limit: float, now_ms: int) -> int:
        """How long until no tokens are owed any more."""
        return max(0, _milliseconds(-self.per_second(limit, now_ms) / limit * 1000))

    def is_over(self, limit: float, now_ms: int) -> bool:
        return self.per_second(limit, now_ms) >= self._burst(limit)

    def _burst(self, limit: float) -> float:
        # The largest quotas times the span are no number any more.
        return min(limit * self._window.span_ms / 1000, sys.float_info.max)


def _milliseconds(number: float) -> int:
    """As Java rounds, the half up, and no more than an int32 can tell."""
    return MAX_INT if number >= MAX_INT else math.floor(number + 0.5)
