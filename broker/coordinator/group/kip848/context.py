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
        """The version of the topics, which every change increases, over restarts as well."""

    def get(self, name: str) -> TopicMetadata | None: ...

    def existing(self, names: Iterable[str]) -> dict[str, TopicMetadata]:
        """Return those of the named topics that exist, by name."""

    def name_of(self, topic_id: UUID) -> str | None: ...

    def matching(self, regex: str) -> Matched | None:
        """Return the matches of an expression, perhaps in an older version of the topics; None before it was matched.

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
    """The matches of the group's regular expressions, computed since the topics changed; the others are missing."""
    sees: Callable[[str], bool] | None = None
    """Returns whether the client may know of a topic; None if it may know of all."""

    def visible(self, topics: frozenset[str]) -> frozenset[str]:
        """Return those of the topics of which the client may know."""
        return topics if self.sees is None else frozenset(filter(self.sees, topics))


class TimerKind(Enum):
    """The timers of a member, each named after the action that stops it. When a timer ends, the member is fenced."""

    SESSION = "session"
    """The member has to send a heartbeat."""
    REBALANCE = "rebalance"
    """The member has to give back the partitions that it was asked to give back."""
    JOIN = "join"
    """A member of the classic protocol, notified of a rebalance, has to join again."""
    SYNC = "sync"
    """A member of the classic protocol, which has joined, has to fetch its assignment."""


@dataclass(frozen=True, slots=True)
class Timer:
    """Start a member's timer anew, or stop it if `delay_ms` is None."""

    kind: TimerKind
    member_id: str
    delay_ms: int | None
    epoch: int = -1
    """For a REBALANCE timer: the member epoch in which it was started. In any other epoch it has no effect."""
    keep: bool = False
    """True if a timer that is running already continues instead of starting anew."""


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
    """The version of the topics with which the group was compared; None if it was not compared."""
