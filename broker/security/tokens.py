"""Delegation tokens (KIP-48, KIP-373): credentials for a time, by which clients log in as the owner.

A token has an id, and an HMAC that all brokers compute from the id and a common secret. A client logs in by SCRAM: the
id is the name, and the HMAC in Base64 the password. So a token is stored without what is needed to use it.

The stored form is that of Kafka's brokers in ZooKeeper, JSON:

    {"version": 3, "tokenId": "…", "owner": "User:ann", "tokenRequester": "User:ann", "renewers": ["User:yarn"],
     "issueTimestamp": ms, "maxTimestamp": ms, "expiryTimestamp": ms}
"""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote

VERSION = 3
MAX_ID = 255


@dataclass(frozen=True, slots=True)
class Token:
    """A delegation token. Principals have the form `User:ann`; times are in ms since the epoch."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    max_ms: int
    """The time that no renewal goes beyond."""
    expires_ms: int

    @property
    def owner_name(self) -> str:
        """The owner's name without the type."""
        return self.owner.partition(":")[2]

    def is_over(self, now_ms: int) -> bool:
        """Return whether it cannot be used any more."""
        return self.max_ms < now_ms or self.expires_ms < now_ms

    def may_be_renewed_by(self, principal: str) -> bool:
        """Return whether a principal is the owner or a renewer."""
        return principal == self.owner or principal in self.renewers

    @property
    def concerned(self) -> tuple[str, ...]:
        """The principals that know of it: the owner, who asked for it, and the renewers.

        (Kafka's `TokenInformation.ownerOrRenewer`)
        """
        return self.owner, self.requester, *self.renewers

    def content(self) -> dict[str, Any]:
        """Return the stored form."""
        return {
            "version": VERSION,
            "owner": _sanitized(self.owner),
            "tokenRequester": _sanitized(self.requester),
            "renewers": [_sanitized(each) for each in self.renewers],
            "issueTimestamp": self.issued_ms,
            "maxTimestamp": self.max_ms,
            "expiryTimestamp": self.expires_ms,
            "tokenId": self.token_id,
        }


def of_content(found: Mapping[str, Any]) -> Token:
    """Read the stored form.

    Raises:
        ValueError, KeyError, TypeError: it is damaged, or of a later version.
    """
    if not 1 <= _number(found["version"]) <= VERSION:
        raise ValueError("the version is not known")
    owner = _principal(found["owner"])
    return Token(
        _text(found["tokenId"]),
        owner,
        _principal(found["tokenRequester"]) if found["version"] >= 3 else owner,
        tuple(_principal(each) for each in found["renewers"]),
        _number(found["issueTimestamp"]),
        _number(found["maxTimestamp"]),
        _number(found["expiryTimestamp"]),
    )


def hmac_of(token_id: str, secret: bytes) -> bytes:
    """Return the HMAC of a token."""
    return hmac.digest(secret, token_id.encode(), "sha512")


def password_of(token_id: str, secret: bytes) -> str:
    """Return the password of a token."""
    return b64encode(hmac_of(token_id, secret)).decode()


def _sanitized(text: str) -> str:
    return quote(text, safe="")


def _principal(value: object) -> str:
    found = unquote(_text(value))
    kind, colon, name = found.partition(":")
    if not kind or not colon or not name:
        raise ValueError("a principal has another form")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError("a text is missing")
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError("a whole number is missing")
    return value
