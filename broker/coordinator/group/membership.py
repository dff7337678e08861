"""The interface of a group to the coordinator, for either protocol.

A partition of `__consumer_offsets` holds groups of either kind: classic ones (`classic.classic_group`) and those of
the consumer protocol (`kip848.consumer_membership`). The committed offsets of a group are separate
(`offsets.GroupOffsets`) and the same for both. A kind of group is a class with these methods; a
`coordinator_parts.GroupKind` says how to load it.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeAlias

from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.errors import ErrorCode


class Moment(NamedTuple):
    """A moment on two clocks, both in ms."""

    ms: int
    """The time of a monotonic clock, for deadlines."""
    wall_ms: int
    """The time since the epoch, for timestamps of records."""


Token: TypeAlias = object
"""A request that waits: in a broker, a future of the service. A group keeps it, and gives it back with the answer."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request. `token` is the waiting request: in a broker, a future of the service."""

    token: Token
    result: Any


@dataclass(frozen=True, slots=True)
class Store:
    """Records to be stored in one batch. `done` is called with the error, or None, once they are replicated.

    An error other than REQUEST_TIMED_OUT comes before anything else happens, and then the log has nothing of the batch.
    After REQUEST_TIMED_OUT it has all of it. The same error is given if too few replicas are in sync once the batch is
    replicated. If records are lost after they were appended, `done` is not called: the groups of the partition are
    unloaded. It is not called either if the group has another membership by then.
    """

    records: list[StateRecord]
    done: Callable[[ErrorCode | None, Moment], None]
    answer: Answer | None = None
    """The answer of a request that waits for the records, whatever becomes of the group; it gets an error if they are
    not stored. Requests that the membership keeps are not given here."""


class CommitRequest(NamedTuple):
    """The member that commits, as OffsetCommit and TxnOffsetCommit name it."""

    member_id: str
    instance_id: str | None
    epoch: int
    """Generation of a classic group's member, member epoch of the consumer protocol; -1 outside of a group."""
    version: int
    """The version of the request."""
    transactional: bool = False


@dataclass(frozen=True, slots=True)
class Retention:
    """The time from which the retention of a group's offsets counts."""

    since: int | None
    """Milliseconds since the epoch for all of them, or None: for each the time of its commit."""
    kept: frozenset[str] = field(default_factory=frozenset)
    """Topics whose offsets do not expire now."""


class MemberSummary(NamedTuple):
    """A member as DescribeGroups shows it."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class GroupSummary(NamedTuple):
    """A group as DescribeGroups shows it."""

    state: str
    protocol_type: str
    protocol: str
    members: list[MemberSummary]


class Membership(Protocol):
    """The interface of a group to the coordinator. Errors are classes of `kafkalog.protocol.errors`."""

    out: list[Answer | Store]
    """Effects in order. `PartitionGroups.settle` carries them out after each call, and empties the list."""

    @property
    def kind(self) -> str:
        """`classic` or `consumer`, as ListGroups names it."""

    @property
    def state_name(self) -> str:
        """The name of the state in ListGroups, such as `Stable`."""

    @property
    def protocol_type(self) -> str | None:
        """The protocol type that its members use or last used; None if it never had a member."""

    @property
    def size(self) -> int:
        """The number of its members."""

    @property
    def is_empty(self) -> bool:
        """Return whether it has no members, and none are about to join."""

    @property
    def wake_at(self) -> int | None:
        """The time to call `wake`, on the clock of `Moment.ms`; it may be too early, but never too late."""

    def wake(self, now: Moment) -> None:
        """Act on all deadlines that have passed by now, such as those of sessions."""

    def check_commit(self, request: CommitRequest, now: Moment) -> None:
        """Check that a member (or, if the group is empty, any client) may commit; this renews the member's session.

        Raises:
            KafkaError: it may not.
        """

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Check that a member may fetch offsets; classic groups do not check who it is.

        Raises:
            KafkaError: it may not.
        """

    def check_deletable(self) -> None:
        """Check that the group has no members.

        Raises:
            NonEmptyGroupError: it has some.
        """

    def consumed(self, topics: Set[str]) -> Set[str]:
        """Return those of the topics that its members consume, as far as the coordinator knows.

        Raises:
            NonEmptyGroupError: it has members of a protocol that the coordinator does not know.
        """

    def retention(self) -> Retention | None:
        """Return the time from which the retention of its offsets counts, or None if they do not expire at present."""

    def tombstones(self, group_id: str) -> list[StateRecord]:
        """Return the tombstones of the group, without those of its offsets."""

    def summary(self) -> GroupSummary | None:
        """Return the description for DescribeGroups, or None if that API does not describe such groups."""

    def unload(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR: the group moves to another broker."""
