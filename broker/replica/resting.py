"""Partitions that rest in fetch sessions: the session's client has all of their records, and knows that it does.

A follower of some hundred partitions fetches twice a second, even when nothing happens. To read each partition for each
of these fetches would be most of an idle broker's work. So a fetch session leaves out what rests. Whatever may change
the answer to a fetch of a partition wakes it: an append, a new high watermark or last stable offset, another log start
offset, another role, a failed log directory.
"""

from __future__ import annotations

from typing import Protocol

PartitionKey = tuple[str, int]


class Sleeper(Protocol):
    """A fetch session in which partitions rest."""

    def wake(self, key: PartitionKey, amount: int) -> None:
        """Read a partition again from the next fetch on; `amount` is as for `DelayedOperation.noticed`."""

    def settle(self, key: PartitionKey) -> None:
        """Note the fetches since the partition began to rest, so that the follower's times are right."""


class RestingPartitions:
    """In which sessions each partition rests. Used on the event loop's thread only."""

    def __init__(self) -> None:
        self._sleepers: dict[PartitionKey, list[Sleeper]] = {}

    def __len__(self) -> int:
        return len(self._sleepers)

    def add(self, key: PartitionKey, sleeper: Sleeper) -> None:
        """Let a partition rest in a session."""
        self._sleepers.setdefault(key, []).append(sleeper)

    def remove(self, key: PartitionKey, sleeper: Sleeper) -> None:
        """End the rest of a partition in one session, without waking the session."""
        sleepers = self._sleepers.get(key)
        if sleepers is not None:
            sleepers.remove(sleeper)
            if not sleepers:
                del self._sleepers[key]

    def wake(self, key: PartitionKey, amount: int) -> None:
        """End the rest of a partition in all sessions."""
        sleepers = self._sleepers.pop(key, None)
        if sleepers is not None:
            for sleeper in sleepers:
                sleeper.wake(key, amount)

    def settle(self, key: PartitionKey) -> None:
        """Bring what is known of a partition's followers up to date."""
        for sleeper in self._sleepers.get(key, ()):
            sleeper.settle(key)
