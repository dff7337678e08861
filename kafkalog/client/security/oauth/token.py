"""Tokens, and what a JWT says about itself. Its signature is the broker's to check, as in Java's clients."""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MAX_TOKEN = 1 << 20
"""The most characters that a token may have. Brokers take 512 KiB by default (`sasl.server.max.receive.size`)."""


class TokenError(Exception):
    """A text is no token that a broker could accept. The message does not show the token."""


@dataclass(frozen=True)
class Token:
    """A token, and when it ends. Times are in seconds since 1970."""

    value: str = field(repr=False)
    expires_at: float = float("inf")
    """The time when it ends; infinity where that is not known."""
    issued_at: float | None = None
    principal: str | None = None
    """The owner of the token, for messages."""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_token(
    text: str, *, sub_claim: str = "sub", expires_at: float | None = None, extensions: Mapping[str, str] | None = None
) -> Token:
    """Make a token from its text.

    A JWT says itself when it ends and whose it is. Of other tokens `expires_at` says when they end.

    Args:
        text: The token; white space around it is removed.
        sub_claim: The claim with the principal's name.
        expires_at: When the token ends, unless it says so itself; in seconds since 1970.
        extensions: What to send with it.

    Raises:
        TokenError: The text is empty, too long, or a JWT whose claims cannot be used.
    """
    text = text.strip()
    if not text:
        raise TokenError("the token is empty")
    if len(text) > MAX_TOKEN:
        raise TokenError(f"the token has {len(text)} characters; at most {MAX_TOKEN} are accepted")
    claims = _claims(text) if text.count(".") == 2 else {}
    ends = _time(claims, "exp")
    if ends is None:
        ends = float("inf") if expires_at is None else expires_at
    principal = claims.get(sub_claim)
    return Token(
        text, ends, _time(claims, "iat"), principal if isinstance(principal, str) else None, dict(extensions or {})
    )


def _claims(text: str) -> dict[str, Any]:
    payload = text.split(".")[1]
    try:
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        raise TokenError("the token looks like a JWT, but its claims are not JSON in Base64") from None
    if not isinstance(claims, dict):
        raise TokenError("the token looks like a JWT, but its claims are no JSON object")
    return claims


def _time(claims: Mapping[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e15:
        raise TokenError(f"the token's claim {name} is no time in seconds since 1970")
    return float(value)
