"""The SASL mechanism GSSAPI (RFC 4752), the client's side, without a library of Kerberos.

The messages are, where C is the client and S the server:

1. C and S exchange the tokens of a security context until both have it. With Kerberos, these are an AP-REQ and an
   AP-REP.
2. C sends an empty message if its last token came from S.
3. S sends four wrapped bytes: a bit mask of the security layers that it offers, and the size of its buffer.
4. C sends, wrapped, the layer that it chooses, a size of zero, and the name that it acts for.

Kafka uses no security layer: TLS protects what follows.
"""

from __future__ import annotations

from typing import Protocol

from kafkalog.protocol.wire.errors import AuthenticationFailedError

_NO_LAYER = 1
"""The bit of RFC 4752 for "no security layer"."""


class SecurityContext(Protocol):
    """A security context of GSSAPI (RFC 2743), as a Kerberos library establishes it.

    Its methods raise `AuthenticationFailedError` where the library refuses what has come.
    """

    @property
    def is_complete(self) -> bool:
        """Return whether the context is established, so that no token of the server is due."""

    def step(self, token: bytes) -> bytes:
        """Take a token of the server; return the next one to send, or no bytes where none is due."""

    def wrap(self, message: bytes) -> bytes:
        """Sign a message."""

    def unwrap(self, message: bytes) -> bytes:
        """Check a message's signature and return its content."""


class Gssapi:
    """GSSAPI: proves by a ticket who the client is, and checks the server's proof.

    Args:
        context: The context, after its first step.
        first_token: What that step returned.
        principal: The client's name, such as `alice@EXAMPLE.COM`.
        service: The server's principal, for messages.
    """

    name = "GSSAPI"

    def __init__(self, context: SecurityContext, first_token: bytes, principal: str, service: str) -> None:
        self._context = context
        self._first_token = first_token
        self._principal = principal
        self._service = service
        self._has_answered = False

    @property
    def identity(self) -> str:
        """The principal that authenticates, for messages."""
        return f"principal {self._principal!r}"

    @property
    def remedy(self) -> str:
        """The remedy to name where the server refuses, for messages."""
        return (
            f"check that the broker's keytab has the present key of {self._service}, which follows from "
            "sasl.kerberos.service.name and the broker's advertised host, and that the clocks agree"
        )

    def first(self) -> bytes:
        """Return the context's first token."""
        return self._first_token

    def answer(self, challenge: bytes) -> bytes | None:
        """Establish the context, then choose no security layer."""
        if not self._context.is_complete:
            return self._context.step(challenge)
        if self._has_answered:
            return None
        offer = self._context.unwrap(challenge)
        if len(offer) != 4 or not offer[0] & _NO_LAYER:
            raise AuthenticationFailedError(
                f"GSSAPI: the broker wants a security layer (it offers {offer[:4].hex() or 'nothing'}); Kafka has none"
            )
        self._has_answered = True
        return self._context.wrap(bytes([_NO_LAYER, 0, 0, 0]) + self._principal.encode())
