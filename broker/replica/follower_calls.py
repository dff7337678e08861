"""Calls of followers: a new leader ends their waiting fetches, so that they soon ask for the partition.

A follower has one fetch at a time under way to a leader, for all partitions that it follows there. While nothing
happens, that fetch waits for up to `replica.fetch.wait.max.ms` (500 ms). It does not name a partition that the leader
has begun to lead since. Until the follower fetches again, nothing that is sent to this partition with acks=all is
acknowledged. So a new leader answers the waiting fetches of the followers in its ISR before their time. They may not
know their new role yet, so it does that again, after growing pauses, until each has fetched the partition.

Leaders of Apache Kafka let such a follower wait.
"""

from __future__ import annotations

import asyncio
from itertools import islice
from typing import NamedTuple

from broker.replica.partition import Partition
from broker.replica.purgatory import Purgatory
from broker.replica.roles import Leader

FIRST_S, LONGEST_S = 0.005, 0.32
"""The first pause, and the longest: each is twice the one before."""
CALLED_FOR_S = 2.0
"""The time after which a follower that has not fetched is called no more: it is not well, or not told of its role."""
AT_ONCE = 1000
"""Partitions that one round looks at. Their followers fetch others by the same connections."""


class FollowerCall(NamedTuple):
    """The key in the purgatory of fetches that a follower's waiting fetches watch."""

    replica: int


class _Awaited(NamedTuple):
    """A partition whose followers have not fetched it yet in a leader epoch, and the time when the calls end."""

    partition: Partition
    epoch: int
    until: float


class FollowerCalls:
    """Calls the followers of partitions that this broker has begun to lead. Used on the event loop's thread only.

    Args:
        loop: the event loop, for its clock and timers.
        fetches: the purgatory of fetches.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, fetches: Purgatory) -> None:
        self._loop = loop
        self._fetches = fetches
        self._awaited: dict[tuple[str, int], _Awaited] = {}
        self._pause = FIRST_S
        self._timer: asyncio.TimerHandle | None = None

    def begin(self, partition: Partition) -> None:
        """Call the followers in the ISR of a partition that have not fetched it since this broker leads it."""
        leading = partition.leading
        if leading is None or not _missing(leading):
            return
        now = self._loop.time()
        self._awaited[partition.key] = _Awaited(partition, leading.epoch, now + CALLED_FOR_S)
        self._pause = FIRST_S
        if self._timer is not None:
            if self._timer.when() <= now + FIRST_S:
                return
            self._timer.cancel()
        self._timer = self._loop.call_later(FIRST_S, self._call)

    def close(self) -> None:
        """Call nobody any more, because the broker stops."""
        self._awaited.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call(self) -> None:
        now = self._loop.time()
        followers: set[int] = set()
        for awaited in list(islice(self._awaited.values(), AT_ONCE)):
            partition, epoch, until = awaited
            leading = partition.leading
            missing = set() if leading is None or leading.epoch != epoch or now >= until else _missing(leading)
            if not missing:
                del self._awaited[partition.key]
            followers |= missing
        for replica in followers:
            self._fetches.notify(FollowerCall(replica))
        self._timer = None
        if self._awaited:
            self._pause = min(2 * self._pause, LONGEST_S)
            self._timer = self._loop.call_later(self._pause, self._call)


def _missing(leading: Leader) -> set[int]:
    """Return the followers in the ISR that have not fetched from this leader."""
    return {
        replica for replica, follower in leading.followers.items() if replica in leading.isr and not follower.is_known
    }
