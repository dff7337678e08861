"""The interface of a SASL mechanism, the server's side, and the ways in which an authentication fails."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class SaslError(Exception):
    """The client is not authenticated. The reason is for the broker's log, and never for the client."""


class SaslRefusalError(SaslError):
    """The client is not authenticated, and the response has the reason. The message says nothing about accounts.

    Args:
        message: the error message of the response.
        reason: what the log says; the same unless it is given.
    """

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = message if reason is None else reason


class SaslRetriableError(SaslError):
    """The client is not authenticated this time, but may be at the next attempt: nothing is answered."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated client."""

    name: str
    """The name of its principal, of the type `User`."""
    expires_at_ms: int | None = None
    """The end of its credential, in milliseconds since the epoch; None if it has none."""
    is_of_token: bool = False
    """True if it has logged in by a delegation token."""


class ServerMechanism(Protocol):
    """One authentication by one mechanism. It takes the client's messages one after another."""

    is_slow: bool
    """True if `answer` computes or waits for so long that a worker has to run it."""
    identity: Identity | None
    """The client, once it is authenticated. It may be None still when `answer` returns."""
    claimed: str
    """The name that the client gives, for the broker's log; empty if it has not given one."""

    def answer(self, message: bytes) -> bytes | None:
        """Take a message of the client and return the answer; None if nothing is to be sent.

        Raises:
            SaslError: the client is not authenticated.
        """


class MakeMechanism(Protocol):
    """Makes the server's side of one authentication."""

    def __call__(self) -> ServerMechanism:
        """Make it."""
