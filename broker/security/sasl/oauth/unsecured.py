"""Tokens without a signature (`alg: none`), as Kafka's `OAuthBearerUnsecuredValidatorCallbackHandler` takes them.

Anybody can make such a token with any name. They are for tests: a listener takes them only if its configuration names
that class, and if it can be reached from this machine only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.config.definition import ConfigError
from broker.security.sasl.oauth.jwt import Expected, Jwt, TokenError, ValidToken, check_claims, scopes

_PREFIX = "unsecuredValidator"


@dataclass(frozen=True, slots=True)
class UnsecuredValidator:
    """Checks tokens without a signature."""

    expected: Expected
    required_scope: frozenset[str] = frozenset()

    @classmethod
    def of_options(cls, options: Mapping[str, str], name: str) -> UnsecuredValidator:
        """Make it from options of the login module.

        Raises:
            ConfigError: an option has another form.
        """
        skew = options.get(f"{_PREFIX}AllowableClockSkewMs", "0")
        if not (skew.isascii() and skew.isdecimal() and len(skew) <= 9):
            raise ConfigError(f"{name}: {_PREFIX}AllowableClockSkewMs is a number of milliseconds")
        expected = Expected(
            skew_s=int(skew) / 1000,
            sub_claim=options.get(f"{_PREFIX}PrincipalClaimName", "sub"),
            scope_claim=options.get(f"{_PREFIX}ScopeClaimName", "scope"),
        )
        return cls(expected, frozenset(options.get(f"{_PREFIX}RequiredScope", "").split()))

    def check(self, token: Jwt, now_s: float) -> ValidToken:
        """Check a token.

        Raises:
            TokenError: it is signed, or its claims are not as expected.
        """
        if token.header.get("alg") != "none" or token.signature:
            raise TokenError("the token is signed, and the listener takes tokens without a signature only")
        # Such tokens need not say when they were issued, and for whom.
        claims = {"iat": token.claims.get("exp"), **token.claims}
        claims.pop("aud", None)
        valid = check_claims(claims, self.expected, now_s)
        if not self.required_scope <= scopes(token.claims, self.expected.scope_claim):
            needed = " ".join(sorted(self.required_scope))
            raise TokenError("the token lacks a scope", "insufficient_scope", needed)
        return valid
