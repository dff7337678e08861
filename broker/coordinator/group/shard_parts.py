"""What shards of groups consist of, and what all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from broker.coordinator.group.classic_state import ClassicSettings
from broker.coordinator.group.membership import Membership, Moment
from broker.coordinator.group.offsets import GroupOffsets
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
class ShardParts:
    """What shards share.

    Attributes:
        settings: of classic groups.
        new_member_id: an id that nobody has, which begins with the text given.
        commit_timeout_ms: how long a commit waits for its replicas.
        load_membership: makes a membership of what a reader of other records kept (`replay.Replay.others`).
    """

    loop: asyncio.AbstractEventLoop
    log: StateLog
    settings: Callable[[], ClassicSettings]
    now: Callable[[], Moment]
    new_member_id: Callable[[str], str]
    commit_timeout_ms: Callable[[], int]
    counters: GroupCounters
    load_membership: Callable[[str, object, Moment], Membership]
