"""The history of partitions: each change of a leader, an ISR or an assignment with its cause, the newest ones kept.

The controller tells all brokers, so that the next one knows what was before it. Apache Kafka's controller logs that an
ISR or a leader changed, not why.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from broker.metadata.znodes.topics import Assignment, StateNode
from kafkalog.protocol.messages.update_metadata import UpdateMetadataChange

KEPT = 10_000
"""The number of changes that are kept."""
MOST_EXPLAINED = 1000
"""The number of changes of one partition that are shown."""
LONGEST_CAUSE = 1000
"""The number of characters of a cause that are kept."""
LOGGED = 20
"""The number of changes of one decision that are written to the broker's log."""


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


def lines(changes: Sequence[Change], what: str) -> Iterator[str]:
    """Yield the lines of a log about changes: the first ones, and how many more there are of `what`."""
    for each in changes[:LOGGED]:
        yield f"{each.topic}-{each.partition}: {each.what}, because {each.cause}"
    if len(changes) > LOGGED:
        yield f"… and {len(changes) - LOGGED} more {what}"


def shortened(cause: str) -> str:
    """Return a cause, without its end if it is very long."""
    return cause if len(cause) <= LONGEST_CAUSE else cause[: LONGEST_CAUSE - 1] + "…"


class Noted(NamedTuple):
    """A change in the history."""

    at_ms: int
    """The time at which it was decided, or this broker was told, in milliseconds since the epoch."""
    controller_epoch: int
    """The epoch of the controller that decided it."""
    topic: str
    partition: int
    what: str
    cause: str
    is_creation: bool = False
    """True if the partition had no state before."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """The changes of one partition that the controller knows, and since when it surely knows all of them."""

    controller_epoch: int
    controller_since_ms: int
    """The time of the controller's election, in milliseconds since the epoch."""
    known_since_ms: int
    """From this time on all changes are known, in milliseconds since the epoch; -1 if all are, since the creation."""
    changes: list[Noted]
    """Oldest first."""


class History:
    """The newest changes that this broker decided as the controller, or was told by other controllers.

    Attributes:
        since_ms: when its present term began, in milliseconds since the epoch; -1 before the first one.
        forgotten_ms: when the newest change was decided that is not kept any more; -1 if all are.
    """

    def __init__(self, kept: int = KEPT) -> None:
        self._changes: deque[Noted] = deque()
        self._kept = kept
        self._epoch = 0
        self._newest_told = 0, 0
        """The epoch of the controller that told of a change last, and the number that it gave to it."""
        self.since_ms = -1
        self.forgotten_ms = -1

    def begin(self, now_ms: int, epoch: int) -> None:
        """Begin a term: of what other controllers decided before it, only that is known which they have told."""
        self._epoch = epoch
        self.since_ms = now_ms

    def add(self, now_ms: int, changes: Iterable[Change]) -> None:
        """Note changes that were decided at the same time, in milliseconds since the epoch."""
        for each in changes:
            is_creation = each.before is None
            self._keep(Noted(now_ms, self._epoch, each.topic, each.partition, each.what, each.cause, is_creation))

    def learn(self, now_ms: int, epoch: int, changes: Iterable[UpdateMetadataChange]) -> None:
        """Note changes that another controller, of this epoch, has told; those of a request that comes twice once."""
        for each in changes:
            if (epoch, each.number) <= self._newest_told:
                continue
            self._newest_told = epoch, each.number
            for partition in each.partitions:
                self._keep(Noted(now_ms, epoch, each.topic_name, partition, each.what, each.cause))

    def _keep(self, noted: Noted) -> None:
        self._changes.append(noted._replace(cause=shortened(noted.cause)))
        if len(self._changes) > self._kept:
            self.forgotten_ms = self._changes.popleft().at_ms

    def of(self, topic: str, partition: int | None = None) -> list[Noted]:
        """Return the kept changes of a topic, or of one of its partitions, oldest first."""
        return [noted for noted in self._changes if noted.topic == topic and partition in (None, noted.partition)]

    def explain(self, topic: str, partition: int, controller_epoch: int) -> Explanation:
        """Return what is known of a partition's changes; `controller_epoch` is that of the present term."""
        changes = self.of(topic, partition)
        known_since_ms = max(self.since_ms, self.forgotten_ms)
        if len(changes) > MOST_EXPLAINED:
            changes = changes[-MOST_EXPLAINED:]
            known_since_ms = max(known_since_ms, changes[0].at_ms)
        created = [noted for noted in changes if noted.controller_epoch == controller_epoch and noted.is_creation]
        return Explanation(controller_epoch, self.since_ms, -1 if created else known_since_ms, changes)
