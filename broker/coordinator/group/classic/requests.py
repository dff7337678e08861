"""Requests of members of the classic protocol, and their results, as values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkalog.protocol.errors import ErrorCode, InvalidRequestError
from kafkalog.protocol.primitives import MAX_STRING, fits_string

Protocols = tuple[tuple[str, bytes], ...]
"""Names of assignors, the preferred first, each with the member's subscription in its format."""
UNKNOWN_MEMBER_ID = ""
NO_GENERATION = -1
_MADE = "-" + "0" * 36
"""The length of the end of a member id that the coordinator makes; before it stands the instance id or client id."""


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
    sees: Callable[[str], bool] | None = None
    """Returns whether the client may know of a topic; None if it may know of all."""


def subscription_bytes(protocols: Protocols) -> int:
    """Return the bytes of all subscriptions of a member."""
    return sum(len(metadata) for _, metadata in protocols)


def check_lengths(request: JoinRequest) -> None:
    """Check that the records of a group can hold the fields of a member.

    Raises:
        InvalidRequestError: a field is too long.
    """
    member_id = request.member_id
    if member_id == UNKNOWN_MEMBER_ID:
        member_id = (request.client_id if request.instance_id is None else request.instance_id) + _MADE
    names = [name for name, _ in request.protocols]
    for text in (member_id, request.instance_id, request.client_id, request.protocol_type, *names):
        if not fits_string(text):
            raise InvalidRequestError(f"A field of the member is longer than {MAX_STRING} bytes.")


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
