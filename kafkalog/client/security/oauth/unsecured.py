"""Tokens without a signature, which only brokers of test clusters accept.

They are those of Java's `OAuthBearerUnsecuredLoginCallbackHandler`, from options of `sasl.jaas.config`, and those of
librdkafka's `enable.sasl.oauthbearer.unsecure.jwt`, from `sasl.oauthbearer.config`.
"""

from __future__ import annotations

import json
import re
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable, Mapping
from typing import Any

from kafkalog.client.errors import ConfigError
from kafkalog.client.security.oauth.token import Token
from kafkalog.protocol.wire.oauthbearer import check_extensions

PREFIX = "unsecuredLogin"
_STRING, _NUMBER, _LIST, _EXTENSION = (
    f"{PREFIX}{kind}_" for kind in ("StringClaim", "NumberClaim", "ListClaim", "Extension")
)
_RESERVED = ("iat", "exp")
_PAIR = re.compile(r"(\w+)=(\S*)")
_LIFE = re.compile(r"[0-9]{1,9}", re.ASCII)


class UnsecuredTokens:
    """Makes tokens without a signature.

    Args:
        claims: The claims, without the times.
        principal_claim: The claim that has the principal's name.
        lifetime: How long a token lasts, in seconds.
        extensions: What to send with a token.
        clock: The time in seconds since 1970.

    Raises:
        ConfigError: The principal's claim is missing, or an extension cannot be sent.
    """

    name = "the options of unsecured tokens"

    def __init__(
        self,
        claims: Mapping[str, Any],
        principal_claim: str,
        lifetime: int,
        extensions: Mapping[str, str],
        clock: Callable[[], float] = time.time,
    ) -> None:
        principal = claims.get(principal_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise ConfigError(
                f'an unsecured token needs the claim {principal_claim}; set {_STRING}{principal_claim}="…" in '
                "sasl.jaas.config"
            )
        try:
            self._extensions = check_extensions(extensions)
        except ValueError as error:
            raise ConfigError(f"an extension of an unsecured token: {error}") from None
        self._claims = dict(claims)
        self._principal = principal
        self._lifetime = lifetime
        self._clock = clock

    def fetch(self) -> Token:
        """Make a token that is valid from now on."""
        now = self._clock()
        claims = {"exp": now + self._lifetime, "iat": now, **self._claims}
        parts = (json.dumps(part, separators=(",", ":")) for part in ({"alg": "none"}, claims))
        encoded = (urlsafe_b64encode(part.encode()).rstrip(b"=").decode() for part in parts)
        text = ".".join(encoded) + "."
        return Token(text, now + self._lifetime, now, self._principal, self._extensions)


def from_jaas(options: Mapping[str, str]) -> UnsecuredTokens:
    """Make what the options of Java's login module describe.

    Raises:
        ConfigError: An option cannot have its value, or one is missing.
    """
    claims: dict[str, Any] = {}
    for name, value in options.items():
        if name.startswith(_STRING):
            claims[_claim(name, _STRING)] = value
        elif name.startswith(_NUMBER):
            claims[_claim(name, _NUMBER)] = _number(name, value)
        elif name.startswith(_LIST):
            claims[_claim(name, _LIST)] = value[1:].split(value[0]) if len(value) > 1 else []
    principal = options.get(f"{PREFIX}PrincipalClaimName", "").strip() or "sub"
    lifetime = options.get(f"{PREFIX}LifetimeSeconds", "3600").strip()
    extensions = {name.removeprefix(_EXTENSION): v for name, v in options.items() if name.startswith(_EXTENSION)}
    return UnsecuredTokens(claims, principal, _lifetime(f"{PREFIX}LifetimeSeconds", lifetime), extensions)


def from_librdkafka(text: str) -> UnsecuredTokens:
    """Make what `sasl.oauthbearer.config` describes, such as `principal=alice scope=a,b lifeSeconds=60`.

    Raises:
        ConfigError: It cannot be understood, or names no principal.
    """
    given = dict(_PAIR.findall(text))
    claim = given.get("principalClaimName", "sub")
    if not given.get("principal"):
        raise ConfigError("sasl.oauthbearer.config: an unsecured token needs principal=…")
    claims: dict[str, Any] = {claim: given["principal"]}
    if given.get("scope"):
        claims[given.get("scopeClaimName", "scope")] = given["scope"].split(",")
    extensions = {k.removeprefix("extension_"): v for k, v in given.items() if k.startswith("extension_")}
    lifetime = _lifetime("sasl.oauthbearer.config: lifeSeconds", given.get("lifeSeconds", "3600"))
    return UnsecuredTokens(claims, claim, lifetime, extensions)


def _claim(option: str, prefix: str) -> str:
    claim = option.removeprefix(prefix)
    if not claim or claim in _RESERVED:
        raise ConfigError(f"sasl.jaas.config: {option} cannot be set; the times of a token are computed")
    return claim


def _number(option: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ConfigError(f"sasl.jaas.config: {option} is no number") from None


def _lifetime(option: str, value: str) -> int:
    if not _LIFE.fullmatch(value) or not int(value):
        raise ConfigError(f"{option}: expected a number of seconds, at least 1")
    return int(value)
