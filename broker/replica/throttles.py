"""Throttles of replication, as Kafka's `ReplicationQuotaManager`.

A topic's configuration names the replicas that are throttled, and the broker's how fast all of them together may go.
Replicas that are in sync are never held back, but what they transfer counts, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from broker.quota.measures import Rate, Window

ALL = None
"""All partitions of a topic."""
EVERY_REPLICA = "*"


class Throttled(NamedTuple):
    """The partitions of a topic whose replicas on this broker are throttled; ALL for all of them."""

    leaders: frozenset[int] | None = frozenset()
    followers: frozenset[int] | None = frozenset()

    @classmethod
    def on(cls, broker_id: int, leaders: Iterable[str], followers: Iterable[str]) -> Throttled:
        """Read the values of the two keys of a topic, lists of `partition:broker` or `*`."""
        return cls(_partitions(broker_id, leaders), _partitions(broker_id, followers))


def _partitions(broker_id: int, replicas: Iterable[str]) -> frozenset[int] | None:
    named = set(replicas)
    if EVERY_REPLICA in named:
        return ALL
    pairs = (replica.split(":") for replica in named)
    return frozenset(int(index) for index, broker in pairs if int(broker) == broker_id)


class ReplicationQuota:
    """Measure how fast throttled replicas go, and tell whether that is too fast.

    Args:
        limit: returns the bytes per second that they may use together.
        window: the time over which usage is averaged.
        clock_ms: the monotonic clock.
    """

    def __init__(self, limit: Callable[[], float], window: Window, clock_ms: Callable[[], int]) -> None:
        self._limit = limit
        self._clock_ms = clock_ms
        self._rate = Rate(window, clock_ms())

    def record(self, nbytes: int) -> None:
        """Count bytes of a throttled replica."""
        self._rate.add(nbytes, self._clock_ms())

    @property
    def is_exceeded(self) -> bool:
        """Return whether throttled replicas that are not in sync have to wait."""
        limit = self._limit()
        return self._rate.per_second(limit, self._clock_ms()) > limit
