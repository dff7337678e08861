"""Requests of members of the classic protocol, and their results, as values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog.protocol.errors import ErrorCode

Protocols = tuple[tuple[str, bytes], ...]
"""Names of assignors, the preferred first, each with the member's subscription in its format."""
UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The fields of a JoinGroup request."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    require_known_id: bool = False
    """A dynamic member first gets its id (KIP-394)."""
    can_skip_assignment: bool = False
    """A static leader that returns may be told to keep the assignment (KIP-814)."""
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SyncRequest:
    """The fields of a SyncGroup request; protocol type and name are None in versions that lack them."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes] = field(default_factory=dict)


class Leaver(NamedTuple):
    """A member that LeaveGroup names; a static member may be named by its instance id only."""

    member_id: str
    instance_id: str | None = None
    reason: str | None = None


class JoinedMember(NamedTuple):
    """A member as the leader of the group sees it in its JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The fields of a JoinGroup response."""

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
    """The fields of a SyncGroup response."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""
