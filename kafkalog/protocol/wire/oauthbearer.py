"""The SASL mechanism OAUTHBEARER, the client's side (RFC 7628), with extensions (KIP-342)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kafkalog.protocol.wire.errors import AuthenticationFailedError

_TOKEN = re.compile(r"[-_~+/.a-zA-Z0-9]+=*", re.ASCII)
_NAME = re.compile(r"[A-Za-z]+", re.ASCII)
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+", re.ASCII)
_RESERVED = "auth"
_SEPARATOR = "\x01"
_AFTER_FAILURE = b"\x01"
"""The client's answer to a failure, after which the server ends the exchange (RFC 7628, section 3.2.3)."""
_SHOWN = 500


class OAuthBearer:
    """OAUTHBEARER: sends a token that an authorization server has given out.

    Args:
        token: The token.
        identity: Who authenticates, for messages; never the token.
        extensions: What else is sent, by name.
        refused: Called when the server has refused the token; an error that it raises ends the authentication.
        remedy: What to change where the server refuses the token.

    Raises:
        ValueError: The token or an extension has characters that the mechanism cannot send. The message does not show
            the token.
    """

    name = "OAUTHBEARER"

    def __init__(
        self,
        token: str,
        identity: str,
        extensions: Mapping[str, str] | None = None,
        *,
        refused: Callable[[], None] = lambda: None,
        remedy: str = "check where the token comes from",
    ) -> None:
        if not _TOKEN.fullmatch(token):
            raise ValueError("the token has characters that no bearer token has (RFC 6750)")
        self.identity = identity
        self.remedy = remedy
        self._token = token
        self._extensions = check_extensions(extensions or {})
        self._refused = refused
        self._failed = False

    def first(self) -> bytes:
        """Return the token and the extensions."""
        pairs = [f"auth=Bearer {self._token}", *(f"{name}={value}" for name, value in self._extensions.items())]
        return f"n,,{_SEPARATOR}{_SEPARATOR.join(pairs)}{_SEPARATOR}{_SEPARATOR}".encode()

    def answer(self, challenge: bytes) -> bytes | None:
        """Take the server's message: nothing if it has accepted the token, else the reason for refusing it."""
        if not challenge and not self._failed:
            return None
        reason = challenge.decode("utf-8", "replace")[:_SHOWN]
        if self._failed:
            raise AuthenticationFailedError(f"OAUTHBEARER: the broker goes on after it has refused the token: {reason}")
        self._failed = True
        self._refused()
        return _AFTER_FAILURE


def check_extensions(extensions: Mapping[str, str]) -> dict[str, str]:
    """Check the names and values of extensions (RFC 7628, section 3.1), and return them.

    Raises:
        ValueError: One of them cannot be sent.
    """
    for name, value in extensions.items():
        if not _NAME.fullmatch(name) or name == _RESERVED:
            raise ValueError(
                f"{name!r} cannot be the name of an extension; names have the letters A to Z, and not auth"
            )
        if not _VALUE.fullmatch(value):
            raise ValueError(f"the value of the extension {name} is empty or has characters that are not printable")
    return dict(extensions)
