"""A member of a classic group, and what its requests ask and are told. Values and bookkeeping only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkalog.protocol.errors import ErrorCode

Protocols = tuple[tuple[str, bytes], ...]
"""Names of assignors, the preferred first, each with the member's subscription in its words."""
UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """What JoinGroup asks.

    Attributes:
        token: who waits for the answer.
        require_known_id: a dynamic member is told its id first (KIP-394).
        can_skip_assignment: a static leader that is back may be told to keep the assignment (KIP-814).
    """

    token: Any
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    require_known_id: bool = False
    can_skip_assignment: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """What SyncGroup asks; protocol type and name are None in the versions that do not say them."""

    token: Any
    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes] = field(default_factory=dict)


class Leaver(NamedTuple):
    """A member that LeaveGroup names; a static one maybe by its instance id alone."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class JoinedMember(NamedTuple):
    """A member as the leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """What JoinGroup is answered."""

    member_id: str
    error: ErrorCode = ErrorCode.NONE
    generation: int = NO_GENERATION
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


@dataclass(frozen=True, slots=True)
class SyncResult:
    """What SyncGroup is answered."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


class Member:
    """One member.

    Attributes:
        awaiting_join, awaiting_sync: who waits for an answer, or None.
        is_new: it has joined and does not know its id yet, so that it cannot send heartbeats.
        deadline: when it is taken for dead, on the clock of ``Moment.ms``; None while nobody counts.
    """

    __slots__ = (
        "assignment", "awaiting_join", "awaiting_sync", "client_host", "client_id", "deadline", "instance_id",
        "is_new", "member_id", "protocol_type", "protocols", "rebalance_timeout_ms", "session_timeout_ms",
    )  # fmt: skip

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocol_type: str,
        protocols: Protocols,
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocol_type = protocol_type
        self.protocols = protocols
        self.assignment = assignment
        self.awaiting_join: Any = None
        self.awaiting_sync: Any = None
        self.is_new = False
        self.deadline: int | None = None

    def metadata(self, protocol: str) -> bytes:
        """Its subscription in the words of an assignor that it knows."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Iterable[str]) -> str:
        """The candidate that it prefers; it knows one of them."""
        return next(name for name, _ in self.protocols if name in candidates)
