"""OAUTHBEARER (RFC 7628): the client sends a token that an authorization server has given out.

    n,[a=authorization id],^Aauth=Bearer <token>^A[name=value^A…]^A        ^A is the byte 1

A token that is not accepted is answered with JSON that says so. The client then sends a single ^A, and only that fails.
Extensions are accepted, and grant nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from broker.security.sasl.mechanisms.interface import Identity, SaslError, SaslRefusalError
from broker.security.sasl.oauth.jwt import TokenError, ValidToken

Check = Callable[[str], ValidToken]
"""Checks a token; raises TokenError if it is not accepted."""

MAX_MESSAGE = 64 * 1024
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[A-Za-z]+=[\x21-\x7e \t\r\n]+\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_AFTER_FAILURE = b"\x01"


class OAuthBearerServer:
    """The server's side of one authentication; `ServerMechanism` describes it.

    Args:
        check: checks tokens, with a signature that takes a worker.
    """

    is_slow = True

    def __init__(self, check: Check) -> None:
        self._check = check
        self._failure: tuple[str, str] | None = None
        """The answer to a token that was not accepted, and the reason."""
        self.identity: Identity | None = None
        self.claimed = ""

    def answer(self, message: bytes) -> bytes:
        """Check the token."""
        if self._failure is not None:
            if message != _AFTER_FAILURE:
                raise SaslError("the client goes on after its token was not accepted")
            raise SaslRefusalError(*self._failure)
        text = message.decode("ascii", "replace")
        match = _FIRST.fullmatch(text) if len(message) <= MAX_MESSAGE else None
        if match is None:
            raise SaslError("Invalid OAUTHBEARER client first message")
        values = [pair[5:] for pair in match["pairs"].split("\x01") if pair.startswith("auth=")]
        if len(values) != 1:
            raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified, or more than once")
        auth = _AUTH.fullmatch(values[0])
        if auth is None or auth["scheme"].lower() != "bearer":
            raise SaslError("Invalid OAUTHBEARER client first message: 'auth' is no bearer token")
        try:
            valid = self._check(auth["token"])
        except TokenError as error:
            answer = {"status": error.status} | ({} if error.scope is None else {"scope": error.scope})
            self._failure = json.dumps(answer, separators=(",", ":")), str(error)
            return self._failure[0].encode()
        self.claimed = valid.principal
        named = match["authzid"]
        if named is not None and named.replace("=2C", ",").replace("=3D", "=") != valid.principal:
            raise SaslRefusalError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self.identity = Identity(valid.principal, valid.expires_at_ms)
        return b""
