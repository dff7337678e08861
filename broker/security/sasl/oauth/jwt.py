"""Reads JSON Web Tokens in compact form (RFC 7515, RFC 7519), and checks their claims as Kafka's validator does.

The package PyJWT reads the form. It does not check the claims: it would refuse tokens that Kafka's validator accepts,
such as one whose `iat` is later than now. A token needs `exp` and `iat`. If it names an audience, the broker has to
expect one of its names: it may be meant for somebody else. No error shows a whole token.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from broker.config.definition import ConfigError

MAX_TOKEN = 16 * 1024
"""The longest token in characters."""
MAX_NAME = 1000
"""The longest name of a principal or a key."""
_SHOWN = 60
"""The most characters of a token's value that an error shows."""
_MOST_SECONDS = 1e11
"""Later times, after the year 5000, are no times in seconds."""


class TokenError(Exception):
    """A token is not accepted. The message is for the log, and does not show the token.

    Attributes:
        status: the status in the response: `invalid_token` or `insufficient_scope`.
        scope: the scope that the token lacks.
    """

    def __init__(self, message: str, status: str = "invalid_token", scope: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.scope = scope


class Jwt(NamedTuple):
    """A token, whose signature is not checked yet."""

    text: str
    header: Mapping[str, Any]
    claims: Mapping[str, Any]
    signature: bytes


class ValidToken(NamedTuple):
    """The content of a token that is accepted."""

    principal: str
    expires_at_ms: int


@dataclass(frozen=True, slots=True)
class Expected:
    """The claims that a token has to have."""

    issuer: str | None = None
    audiences: tuple[str, ...] = ()
    skew_s: float = 30.0
    """The difference that the clocks of the broker and of the issuer may have."""
    sub_claim: str = "sub"
    scope_claim: str = "scope"


Verify = Callable[[Jwt], None]
"""Checks the signature of a token; raises TokenError if it is not right."""


def check_installed(name: str) -> None:
    """Check that tokens can be read.

    Args:
        name: the configuration that asks for it, for messages.

    Raises:
        ConfigError: a package is missing.
    """
    try:
        import cryptography  # noqa: F401 - an optional package
        import jwt  # noqa: F401 - an optional package
    except ImportError:
        raise ConfigError(
            f"{name}: tokens are checked with the packages PyJWT and cryptography: pip install 'kafkalog[oauth]'"
        ) from None


def parse_jwt(text: str) -> Jwt:
    """Split a token into its parts.

    Raises:
        TokenError: it is no token in compact form.
    """
    from jwt import PyJWS, PyJWTError

    if len(text) > MAX_TOKEN:
        raise TokenError(f"the token has {len(text)} characters, more than {MAX_TOKEN}")
    try:
        found = PyJWS().decode_complete(text, options={"verify_signature": False})
        claims = json.loads(found["payload"])
    except PyJWTError as error:
        raise TokenError(f"the token is no JWT: {str(error)[:_SHOWN]}") from None
    except (ValueError, RecursionError):
        raise TokenError("the token is no JWT: its claims are not JSON") from None
    if not isinstance(claims, dict):
        raise TokenError("the token is no JWT: its claims are no JSON object")
    return Jwt(text, found["header"], claims, found["signature"])


def check_claims(claims: Mapping[str, Any], expected: Expected, now_s: float) -> ValidToken:
    """Check the claims of a token, and return what they say.

    Args:
        claims: the claims.
        expected: what is expected of them.
        now_s: the seconds since the epoch.

    Raises:
        TokenError: they are not as expected.
    """
    issued, expires = _time(claims, "iat"), _time(claims, "exp")
    begins = _time(claims, "nbf") if "nbf" in claims else issued
    skew = expected.skew_s
    if now_s - skew >= expires:
        raise TokenError(f"the token has expired {now_s - expires:.0f} s ago, or the clocks differ")
    if "nbf" in claims and now_s + skew < begins:
        raise TokenError(f"the token is valid in {begins - now_s:.0f} s only, or the clocks differ")
    if expires < issued:
        raise TokenError("the token expires before it was issued")
    if expected.issuer is not None and claims.get("iss") != expected.issuer:
        raise TokenError(
            f"the token's issuer is {_shown(claims.get('iss'))}; expected is {expected.issuer} "
            "(sasl.oauthbearer.expected.issuer)"
        )
    _check_audience(claims, expected)
    scopes(claims, expected.scope_claim)
    principal = claims.get(expected.sub_claim)
    if not isinstance(principal, str) or not principal.strip() or len(principal) > MAX_NAME:
        raise TokenError(f"the token's claim {expected.sub_claim} is no name (sasl.oauthbearer.sub.claim.name)")
    return ValidToken(principal, int(expires * 1000))


def scopes(claims: Mapping[str, Any], name: str) -> frozenset[str]:
    """Return the scopes of a token: one text with spaces between them, or a list.

    Raises:
        TokenError: the claim has another form.
    """
    found = claims.get(name)
    if found is None:
        return frozenset()
    listed = found.split() if isinstance(found, str) else found
    if not isinstance(listed, list) or not all(isinstance(each, str) for each in listed):
        raise TokenError(f"the token's claim {name} is neither a text nor a list of texts")
    return frozenset(each.strip() for each in listed)


def _check_audience(claims: Mapping[str, Any], expected: Expected) -> None:
    found = claims.get("aud")
    names = [found] if isinstance(found, str) else found
    if names is None and not expected.audiences:
        return
    if not isinstance(names, list) or not any(name in expected.audiences for name in names if isinstance(name, str)):
        raise TokenError(
            f"the token is for the audience {_shown(found)}; expected is {', '.join(expected.audiences) or 'none'} "
            "(sasl.oauthbearer.expected.audience)"
        )


def _time(claims: Mapping[str, Any], name: str) -> float:
    found = claims.get(name)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= _MOST_SECONDS:
        raise TokenError(f"the token's claim {name} is no time in seconds since 1970")
    return float(found)


def _shown(value: object) -> str:
    return repr(value)[:_SHOWN]
