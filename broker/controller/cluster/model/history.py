"""Why partitions changed: each change of a leader, an ISR or an assignment with its cause, the newest ones kept.

Apache Kafka's controller logs that an ISR or a leader changed, not why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from broker.metadata.znodes.topics import Assignment, StateNode

KEPT = 10_000
"""The number of changes that are kept."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change of a partition."""

    topic: str
    partition: int
    what: str
    """The change, such as `leader 1 -> 2, isr [1, 2] -> [2]`."""
    cause: str
    """The event that led to it, with its evidence."""
    before: StateNode | Assignment | None
    after: StateNode | Assignment


def describe(before: StateNode | None, after: StateNode) -> str:
    """Return what differs between two states of a partition; empty if only epochs do."""
    if before is None:
        return f"leader {after.leader}, isr {list(after.isr)}"
    parts = []
    if before.leader != after.leader:
        parts.append(f"leader {before.leader} -> {after.leader}")
    if before.isr != after.isr:
        parts.append(f"isr {list(before.isr)} -> {list(after.isr)}")
    if before.recovery is not after.recovery:
        parts.append(f"{before.recovery.name.lower()} -> {after.recovery.name.lower()}")
    return ", ".join(parts)


def describe_assignment(before: Assignment, after: Assignment) -> str:
    """Return what differs between two assignments of a partition."""
    parts = [f"replicas {list(before.replicas)} -> {list(after.replicas)}"]
    if after.adding:
        parts.append(f"adding {list(after.adding)}")
    if after.removing:
        parts.append(f"removing {list(after.removing)}")
    return ", ".join(parts)


class History:
    """The newest changes, each with the time at which it was decided."""

    def __init__(self, kept: int = KEPT) -> None:
        self._changes: deque[tuple[int, Change]] = deque(maxlen=kept)

    def add(self, now_ms: int, changes: Iterable[Change]) -> None:
        """Note changes that were decided at the same time, in milliseconds since the epoch."""
        self._changes.extend((now_ms, change) for change in changes)

    def of(self, topic: str, partition: int | None = None) -> list[tuple[int, Change]]:
        """Return the kept changes of a topic, or of one of its partitions, oldest first, each with its time."""
        return [
            (at, change)
            for at, change in self._changes
            if change.topic == topic and partition in (None, change.partition)
        ]
