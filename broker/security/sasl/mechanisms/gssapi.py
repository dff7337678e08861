"""GSSAPI (RFC 4752): the client shows a ticket of Kerberos.

1. Both exchange the tokens of a security context until both have it.
2. The client sends an empty message, if the last token was ours.
3. We send, wrapped, that we have no security layer: TLS protects what follows.
4. The client sends, wrapped, that it has none either, and the name that it acts for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from broker.security.sasl.kerberos.names import NameRules, NoUserError
from broker.security.sasl.mechanisms.interface import Identity, SaslError

_NO_LAYER = 1
"""The bit of RFC 4752 for "no security layer"."""
_OFFER = bytes([_NO_LAYER, 0, 0, 0])
MAX_MESSAGE = 64 * 1024


class AcceptedContext(Protocol):
    """A security context with one client. Its methods raise `SaslError` if the library does not accept something."""

    @property
    def is_complete(self) -> bool:
        """Return whether it is established."""

    @property
    def client(self) -> str:
        """The name of the client."""

    def step(self, token: bytes) -> bytes | None:
        """Take a token of the client; return the next one, or None."""

    def wrap(self, message: bytes) -> bytes:
        """Sign a message."""

    def unwrap(self, message: bytes) -> bytes:
        """Check the signature of a message, and return its content."""


class GssapiServer:
    """The server's side of one authentication; `ServerMechanism` describes it.

    Args:
        accept: begins a security context.
        rules: say which users names stand for.
    """

    is_slow = True

    def __init__(self, accept: Callable[[], AcceptedContext], rules: NameRules) -> None:
        self._accept = accept
        self._rules = rules
        self._context: AcceptedContext | None = None
        self._is_offered = False
        self.identity: Identity | None = None
        self.claimed = ""

    def answer(self, message: bytes) -> bytes | None:
        """Take a token, or the client's answer to our offer."""
        if len(message) > MAX_MESSAGE:
            raise SaslError(f"a message of {len(message)} bytes is longer than {MAX_MESSAGE}")
        if self.identity is not None:
            raise SaslError("the exchange is over")
        context = self._context
        if context is None:
            context = self._context = self._accept()
        if not context.is_complete:
            token = context.step(message)
            if token or not context.is_complete:
                return token or b""
            # The client has sent its last token, and waits for the offer.
            return self._offer(context)
        if not self._is_offered:
            if message:
                raise SaslError("an empty message is expected after the security context")
            return self._offer(context)
        self._finish(context, context.unwrap(message))
        return None

    def _offer(self, context: AcceptedContext) -> bytes:
        self._is_offered = True
        self.claimed = context.client
        return context.wrap(_OFFER)

    def _finish(self, context: AcceptedContext, chosen: bytes) -> None:
        if len(chosen) < len(_OFFER) or chosen[0] != _NO_LAYER:
            raise SaslError("the client wants a security layer, and Kafka has none")
        principal = context.client
        try:
            named = chosen[len(_OFFER) :].decode()
            user = self._rules.user_of(principal)
        except UnicodeDecodeError:
            raise SaslError("the name that the client acts for is not in UTF-8") from None
        except NoUserError as error:
            raise SaslError(str(error)) from None
        if named not in ("", principal, principal.partition("@")[0], user):
            raise SaslError("the client acts for somebody else")
        self.identity = Identity(user)
