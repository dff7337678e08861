"""Fetches that wait, and what their partitions have brought since they were read.

Hundreds of consumers may wait for the same thousand partitions: an append examines one partition of each, not all.
"""

from __future__ import annotations

from collections.abc import Hashable

from broker.api.fetch.fetch_partition import FetchPartitionState
from broker.api.fetch.fetch_reading import FetchReading
from broker.replica.follower_calls import FollowerCall
from broker.replica.purgatory import DelayedOperation


class WaitingFetch(DelayedOperation):
    """A fetch that has found too little. Subclasses read again when it `is_due`.

    Attributes:
        keys: what it watches.
        is_called: whether the follower is to get its answer now, because it has another partition to ask for.
    """

    __slots__ = ("_added", "_is_urgent", "_reading", "_states", "is_called", "keys")

    def __init__(self, reading: FetchReading) -> None:
        super().__init__()
        self._reading = reading
        self.keys = reading.keys()
        self.is_called = False
        self._states: dict[Hashable, FetchPartitionState] = {
            (state.name, state.partition): state for state in reading.context.partitions
        }
        self._added = 0
        """The bytes added since the partitions were read."""
        self._is_urgent = False
        """True if a partition was lost, or is read in an older segment: reading again does not wait for bytes."""

    def is_due(self, wanted: int) -> bool:
        """Return whether reading again is worth it for a fetch that lacks `wanted` bytes."""
        return self._is_urgent or self._added >= wanted

    def begin_again(self) -> None:
        """Forget what was noticed, because the partitions are read again."""
        self._added = 0
        self._is_urgent = False

    def noticed(self, key: Hashable, amount: int) -> None:
        if isinstance(key, FollowerCall):
            self.is_called = True
            return
        self._added += amount
        # Partitions of the session that rested when it was read.
        fresh: dict[Hashable, FetchPartitionState] = {
            (state.name, state.partition): state for state in self._reading.take_woken()
        }
        if fresh:
            self._states |= fresh
            self.watch_also(fresh)
        if not self._is_urgent:
            concerned = fresh.values() if key not in self._states else [self._states[key], *fresh.values()]
            is_online = self._reading.request.broker.replicas.is_online
            self._is_urgent = any(
                not is_online(state.name, state.partition) or self._reading.is_behind([state]) for state in concerned
            )
