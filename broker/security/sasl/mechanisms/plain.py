"""PLAIN (RFC 4616): the client sends its name and its password.

The message is `[authorization id] NUL user NUL password`, in UTF-8. What it says about wrong messages is what Kafka's
`PlainSaslServer` says.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping

from broker.security.sasl.mechanisms.interface import Identity, SaslError, SaslRefusalError

_TOKENS = 3
_NOBODY = "no account has this password"
"""Stands for the password of a user without an account. What is compared has a fixed length, whatever it is."""


class PlainAccounts:
    """The users that may log in by PLAIN, with their passwords.

    Args:
        passwords: passwords by the user's name.
    """

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self._passwords = dict(passwords)

    def __repr__(self) -> str:
        return f"PlainAccounts({len(self._passwords)} users)"

    def __len__(self) -> int:
        return len(self._passwords)

    def check(self, username: str, password: str) -> bool:
        """Return whether this is the password of that user. It takes as long for a user who does not exist."""
        expected = self._passwords.get(username)
        is_equal = hmac.compare_digest(_digest(_NOBODY if expected is None else expected), _digest(password))
        return is_equal and expected is not None


class PlainServer:
    """The server's side of one authentication; `ServerMechanism` describes it.

    Args:
        accounts: who may log in.
    """

    is_slow = False

    def __init__(self, accounts: PlainAccounts) -> None:
        self._accounts = accounts
        self.identity: Identity | None = None
        self.claimed = ""

    def answer(self, message: bytes) -> bytes:
        """Check the name and the password."""
        try:
            tokens = message.decode().split("\0")
        except UnicodeDecodeError:
            raise SaslError("Invalid SASL/PLAIN response: it is not in UTF-8") from None
        if len(tokens) != _TOKENS:
            raise SaslError(f"Invalid SASL/PLAIN response: expected {_TOKENS} tokens, got {len(tokens)}")
        authorization_id, username, password = tokens
        self.claimed = username
        if not username:
            raise SaslError("Authentication failed: username not specified")
        if not password:
            raise SaslError("Authentication failed: password not specified")
        if not self._accounts.check(username, password):
            raise SaslRefusalError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", username):
            raise SaslRefusalError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.identity = Identity(username)
        return b""


def _digest(password: str) -> bytes:
    """Return bytes that are compared instead of a password, so that their length says nothing."""
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()
