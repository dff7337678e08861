"""Objects that the groups of all partitions share: counters, settings, clocks, and loaders of groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Self

from broker.coordinator.group.classic.classic_group import ClassicSettings
from broker.coordinator.group.membership import Membership, Moment
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.replay import Reader
from broker.coordinator.state_log import StateLog


class LoadState(Enum):
    """The stages of a partition's groups. Only ACTIVE groups serve requests."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Group:
    """A group: its members, of either protocol, and its committed offsets."""

    __slots__ = ("id", "membership", "offsets", "timer")

    def __init__(self, group_id: str, membership: Membership, offsets: GroupOffsets) -> None:
        self.id = group_id
        self.membership = membership
        self.offsets = offsets
        self.timer: asyncio.TimerHandle | None = None


class ListedGroup(NamedTuple):
    """A group as ListGroups shows it."""

    group_id: str
    protocol_type: str
    state: str
    kind: str

    @classmethod
    def of(cls, group: Group) -> Self:
        membership = group.membership
        return cls(group.id, membership.protocol_type or "", membership.state_name, membership.kind)


@dataclass(slots=True)
class GroupCounters:
    """Counts over all partitions since the broker started; times in ms."""

    offset_commits: int = 0
    offset_deletions: int = 0
    offset_expirations: int = 0
    completed_rebalances: int = 0
    loads: int = 0
    load_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupKind:
    """A kind of group besides the classic one: its types of records, and how its groups are loaded from them."""

    types: frozenset[int]
    """The types of its records in `__consumer_offsets`."""
    value: type
    """The class of the objects that `read` stores in `Replay.others`."""
    read: Reader
    """Reads a record of one of these types into a `Replay`, while a partition is loaded."""
    load: Callable[[str, object, Moment], Membership]
    """Makes the membership of a group from its id, the object that `read` stored for it, and the time."""


@dataclass(frozen=True, slots=True)
class CoordinatorParts:
    """Objects that the groups of all partitions share."""

    loop: asyncio.AbstractEventLoop
    log: StateLog
    settings: Callable[[], ClassicSettings]
    """Returns the settings of classic groups."""
    now: Callable[[], Moment]
    new_member_id: Callable[[str], str]
    """Returns an unused member id that begins with the given text."""
    commit_timeout_ms: Callable[[], int]
    """Returns how long a commit waits for replication."""
    counters: GroupCounters
    kinds: Sequence[GroupKind]
    """The kinds of groups other than the classic one."""

    def readers(self) -> dict[int, Reader]:
        """Return the readers of records of other kinds, by the type of the record."""
        return {number: kind.read for kind in self.kinds for number in kind.types}

    def load_membership(self, group_id: str, loaded: object, now: Moment) -> Membership:
        """Return the membership of a group of another kind, for which its reader stored `loaded`."""
        load = next(kind.load for kind in self.kinds if isinstance(loaded, kind.value))
        return load(group_id, loaded, now)
