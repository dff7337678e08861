"""Counts of the authentications on one listener, by the names of Kafka's metrics."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(slots=True)
class AuthenticationCounts:
    """Counts since the start of the broker."""

    successful: int = 0
    """Clients that were authenticated (`successful-authentication-total`)."""
    without_end: int = 0
    """Authenticated clients whose sessions do not end (`successful-authentication-no-reauth-total`)."""
    failures: int = 0
    """Clients that were not authenticated (`failed-authentication-total`)."""
    renewed: int = 0
    """Sessions that were renewed (`successful-reauthentication-total`)."""
    renewal_failures: int = 0
    """Sessions that could not be renewed (`failed-reauthentication-total`)."""
    expired: int = 0
    """Connections that were closed after the end of their sessions (`expired-connections-killed-count`)."""
    latency_s: float = 0.0
    """The time that the renewals of sessions took in all."""

    def __add__(self, other: AuthenticationCounts) -> AuthenticationCounts:
        """Return the counts of both together."""
        names = [field.name for field in fields(self)]
        return AuthenticationCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def succeeded(self, is_first: bool, seconds: float, *, ends: bool) -> None:
        """Count a success: the first one of a connection, or the renewal of its session, which took `seconds`."""
        if is_first:
            self.successful += 1
            self.without_end += not ends
        else:
            self.renewed += 1
            self.latency_s += seconds

    def failed(self, *, is_first: bool) -> None:
        """Count a failure: of the first authentication of a connection, or of the renewal of its session."""
        if is_first:
            self.failures += 1
        else:
            self.renewal_failures += 1
