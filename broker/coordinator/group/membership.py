"""What the coordinator asks of a group, whichever protocol its members speak.

A partition of ``__consumer_offsets`` holds groups of either kind: classic ones (`classic.classic_group`) and those of
the consumer protocol (`kip848.consumer_membership`). The committed offsets of a group are beside it
(`offsets.GroupOffsets`) and the same for both. A kind of group is a class with these methods; a
`coordinator_parts.GroupKind` says how it is loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.errors import ErrorCode


class Moment(NamedTuple):
    """A moment on two clocks, both in ms.

    Attributes:
        ms: of a clock that never jumps: deadlines are kept in it.
        wall_ms: since the epoch: timestamps of records.
    """

    ms: int
    wall_ms: int


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a request. ``token`` is the request that waits: in a broker, a future of the service."""

    token: Any
    result: Any


@dataclass(frozen=True, slots=True)
class Store:
    """Records to be stored in one batch. ``done`` is called with the error, or None, once they are replicated.

    An error other than REQUEST_TIMED_OUT comes before anything else happens, and nothing of the batch is in the log
    then; after REQUEST_TIMED_OUT all of it is. When records are lost after they were appended, ``done`` is not called:
    the groups of the partition are unloaded.
    """

    records: list[StateRecord]
    done: Callable[[ErrorCode | None, Moment], None]


class CommitRequest(NamedTuple):
    """The member that commits, as OffsetCommit and TxnOffsetCommit name it.

    Attributes:
        epoch: generation of a classic group's member, member epoch of the consumer protocol; -1 outside of a group.
        version: of the request.
    """

    member_id: str
    instance_id: str | None
    epoch: int
    version: int
    transactional: bool = False


@dataclass(frozen=True, slots=True)
class Retention:
    """From when on the retention of a group's offsets counts.

    Attributes:
        since: ms since the epoch for all of them, or None: each from when it was committed.
        kept: topics whose offsets do not expire now.
    """

    since: int | None
    kept: frozenset[str] = field(default_factory=frozenset)


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
    """See the module. Errors are Kafka's, typed.

    Attributes:
        out: what is to be done, in order. `PartitionGroups.settle` does it after each call, and empties the list.
    """

    out: list[Answer | Store]

    @property
    def kind(self) -> str:
        """``classic`` or ``consumer``, as ListGroups names it."""

    @property
    def state_name(self) -> str:
        """As ListGroups names it, such as ``Stable``."""

    @property
    def protocol_type(self) -> str | None:
        """The protocol type that its members use or last used; None where it never had a member."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members, and none are about to join."""

    @property
    def wake_at(self) -> int | None:
        """The time to call `wake`, on the clock of ``Moment.ms``; it may be too early, but never too late."""

    def wake(self, now: Moment) -> None:
        """Do what is due by now, such as ending sessions."""

    def check_commit(self, request: CommitRequest, now: Moment) -> None:
        """Let a member (or, of an empty group, anybody) commit; counts as a sign of life.

        Raises:
            KafkaError: it may not.
        """

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Let a member fetch offsets; classic groups do not ask who it is.

        Raises:
            KafkaError: it may not.
        """

    def check_deletable(self) -> None:
        """Raise NonEmptyGroupError if the group has members."""

    def is_subscribed(self, topic: str) -> bool:
        """Return whether its members read the topic, as far as the coordinator knows.

        Raises:
            NonEmptyGroupError: it has members of a protocol that the coordinator does not understand.
        """

    def retention(self) -> Retention | None:
        """From when on its offsets expire, or None where they do not now."""

    def tombstones(self, group_id: str) -> list[StateRecord]:
        """Return the tombstones of the group, without those of its offsets."""

    def summary(self) -> GroupSummary | None:
        """For DescribeGroups, or None where that API does not show such groups."""

    def unload(self) -> None:
        """Answer all waiting requests with NOT_COORDINATOR: the group moves to another broker."""
