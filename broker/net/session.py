"""The other end of a connection: its listener, address, principal and client software."""

from __future__ import annotations

from typing import NamedTuple

from broker.config.listeners import Endpoint

USER_TYPE = "User"
UNKNOWN_SOFTWARE = "unknown"
"""The name and version of a client's software until its ApiVersions request states them, as in Kafka (KIP-511)."""


class Principal(NamedTuple):
    """The authenticated sender of requests, in Kafka's form: `User:alice`."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")
"""The principal of a connection whose listener asks for no authentication."""


class Session:
    """A connection's listener, peer and principal, and the software that its client reports.

    Attributes:
        endpoint: the listener that the connection came through.
        peer: the address of the peer, without its port.
        principal: who sends the requests.
        mechanism: the SASL mechanism that the client uses; None if the listener requires no authentication.
        is_of_token: whether the client has logged in by a delegation token.
        client_software_name: the name of the client's library.
        client_software_version: the version of that library.
    """

    __slots__ = (
        "client_software_name", "client_software_version", "endpoint", "is_of_token", "mechanism", "peer", "principal",
    )  # fmt: skip

    def __init__(self, endpoint: Endpoint, peer: str) -> None:
        self.endpoint = endpoint
        self.peer = peer
        self.principal = ANONYMOUS
        self.mechanism: str | None = None
        self.is_of_token = False
        self.client_software_name = UNKNOWN_SOFTWARE
        self.client_software_version = UNKNOWN_SOFTWARE

    def authenticated(self, name: str, mechanism: str, *, is_of_token: bool = False) -> None:
        """Take the user that a SASL mechanism has authenticated."""
        self.principal = Principal(USER_TYPE, name)
        self.mechanism = mechanism
        self.is_of_token = is_of_token
