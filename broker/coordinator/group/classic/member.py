"""A member of a classic group."""

from __future__ import annotations

from collections.abc import Iterable

from broker.coordinator.group.classic.requests import Protocols
from broker.coordinator.group.membership import Token


class Member:
    """One member.

    Attributes:
        awaiting_join, awaiting_sync: the token of the waiting request, or None.
        is_new: it has joined and does not know its id yet, so it cannot send heartbeats.
        deadline: when its session ends, on the clock of `Moment.ms`; None while no session timeout runs.
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
        self.awaiting_join: Token | None = None
        self.awaiting_sync: Token | None = None
        self.is_new = False
        self.deadline: int | None = None

    def metadata(self, protocol: str) -> bytes:
        """Return its subscription in the format of an assignor that it supports."""
        return next(metadata for name, metadata in self.protocols if name == protocol)

    def vote(self, candidates: Iterable[str]) -> str:
        """Return the candidate that the member prefers; it supports at least one of them."""
        return next(name for name, _ in self.protocols if name in candidates)
