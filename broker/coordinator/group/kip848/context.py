"""The input of a request to a consumer group (`Context`), and its result (`Outcome`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from broker.coordinator.group.kip848.config import ConsumerGroupConfig
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.model import TopicMetadata

T = TypeVar("T")


class Matched(NamedTuple):
    """The topics that a regular expression matches, in `version` of the cluster's topics."""

    topics: frozenset[str]
    version: int


class Topics(Protocol):
    """The topics of the cluster at one moment."""

    @property
    def version(self) -> int:
        """Greater after every change of the topics, also after a restart."""

    def get(self, name: str) -> TopicMetadata | None: ...

    def existing(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Return those of the named topics that exist, by name."""

    def name_of(self, topic_id: UUID) -> str | None: ...

    def matching(self, regex: str) -> Matched | None:
        """Return what an expression matches, maybe in an older version of the topics; None if that is unknown yet.

        Raises:
            InvalidRegularExpressionError: the expression is refused.
        """


@dataclass(frozen=True, slots=True)
class Context:
    """The input of a request: topics, settings, the time, and the client."""

    topics: Topics
    config: ConsumerGroupConfig
    now_ms: int
    """Milliseconds since the epoch."""
    new_member_id: Callable[[], str]
    """Makes a member id for members that come without one."""
    client_id: str = ""
    client_host: str = ""
    matched: Mapping[str, Matched] = field(default_factory=dict)
    """What the group's expressions match since the topics changed, as far as it is known."""


class TimerKind(Enum):
    """Actions that a member must take in time; otherwise it is fenced."""

    SESSION = "session"
    """Send a heartbeat."""
    REBALANCE = "rebalance"
    """Give back the partitions that it was asked for."""
    JOIN = "join"
    """Join again, as a member of the classic protocol that was notified of a rebalance."""
    SYNC = "sync"
    """Ask for its assignment, as a member of the classic protocol that has joined."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Start a member's timer anew, or stop it if `delay_ms` is None."""

    kind: TimerKind
    member_id: str
    delay_ms: int | None
    epoch: int = -1
    """Of a REBALANCE timer: it counts only while the member is in this epoch."""
    keep: bool = False
    """A timer that runs already goes on."""


@dataclass(slots=True)
class Outcome(Generic[T]):
    """The result of a request to a group: response, records and timers.

    The group has not changed yet: the records are appended as one batch, then replayed, and the response is sent when
    they are stored. If that fails, the timers and `seen_version` do not count either.
    """

    response: T
    records: list[GroupRecord] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)
    seen_version: int | None = None
    """The group was compared with this version of the topics."""
