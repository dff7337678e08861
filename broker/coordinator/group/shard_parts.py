"""What shards of groups consist of, and what all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from broker.coordinator.group.classic.classic_group import ClassicSettings
from broker.coordinator.group.membership import Membership, Moment
from broker.coordinator.group.offsets import GroupOffsets
from broker.coordinator.group.replay import Reader
from broker.coordinator.state_log import StateLog


class ShardState(Enum):
    """Whether a shard's groups can be asked for."""

    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"
    CLOSED = "closed"


class Group:
    """A group: its members, of either protocol, and what they have committed."""

    __slots__ = ("id", "membership", "offsets", "timer")

    def __init__(self, group_id: str, membership: Membership, offsets: GroupOffsets) -> None:
        self.id = group_id
        self.membership = membership
        self.offsets = offsets
        self.timer: asyncio.TimerHandle | None = None


@dataclass(slots=True)
class GroupCounters:
    """What is counted over all shards since the broker started."""

    offset_commits: int = 0
    offset_deletions: int = 0
    offset_expirations: int = 0
    completed_rebalances: int = 0
    loads: int = 0
    load_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class GroupKind:
    """How groups of a kind other than the classic one are loaded.

    Attributes:
        types: of its records in ``__consumer_offsets``.
        value: what ``read`` keeps of a group in `Replay.others`.
        read: reads such a record while a shard is loaded.
        load: makes a membership of what ``read`` kept.
    """

    types: frozenset[int]
    value: type
    read: Reader
    load: Callable[[str, object, Moment], Membership]


@dataclass(frozen=True, slots=True)
class ShardParts:
    """What shards share.

    Attributes:
        settings: of classic groups.
        new_member_id: an id that nobody has, which begins with the text given.
        commit_timeout_ms: how long a commit waits for its replicas.
        kinds: of groups beside classic ones.
    """

    loop: asyncio.AbstractEventLoop
    log: StateLog
    settings: Callable[[], ClassicSettings]
    now: Callable[[], Moment]
    new_member_id: Callable[[str], str]
    commit_timeout_ms: Callable[[], int]
    counters: GroupCounters
    kinds: Sequence[GroupKind]

    def readers(self) -> dict[int, Reader]:
        """Return the readers of records of other kinds, by the type of the record."""
        return {number: kind.read for kind in self.kinds for number in kind.types}

    def load_membership(self, group_id: str, loaded: object, now: Moment) -> Membership:
        """Return the membership of a group of another kind, of which its reader kept ``loaded``."""
        load = next(kind.load for kind in self.kinds if isinstance(loaded, kind.value))
        return load(group_id, loaded, now)
