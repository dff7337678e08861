"""The properties of logins by OAuth 2, under Java's names and librdkafka's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import boolean, decimal, integer, milliseconds, one_of, option

CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
ALGORITHMS = ("RS256", "ES256")
"""The algorithms with which Kafka's clients can sign an assertion."""

ENDPOINT_KEY = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID_KEY = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET_KEY = "sasl.oauthbearer.client.credentials.client.secret"
SCOPE_KEY = "sasl.oauthbearer.scope"
HANDLER_KEY = "sasl.login.callback.handler.class"
TOKEN_KEY = "sasl.oauthbearer.token"


def _pairs(text: str) -> tuple[tuple[str, str], ...]:
    """Parse `name=value,name=value`."""
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    if not all(equals for _, equals, _ in pairs):
        raise ConfigError("expected name=value, separated by commas")
    return tuple((name, value) for name, _, value in pairs)


def _function(value: Any) -> Callable[..., Any]:
    if not callable(value):
        raise ConfigError("expected a function")
    return value  # type: ignore[no-any-return]


def _provider(value: Any) -> Any:
    if not callable(getattr(value, "token", None)):
        raise ConfigError("expected an object with a method token()")
    return value


@dataclass(frozen=True)
class OAuthOptions:
    """The properties of OAuth: how to get tokens, and when to get the next one. Durations are in seconds.

    Two objects that are equal describe the same login.
    """

    # When to give up, and when to get the next token
    connect_timeout: float = option("sasl.login.connect.timeout.ms", 4.0, milliseconds(1))
    read_timeout: float = option("sasl.login.read.timeout.ms", 10.0, milliseconds(1))
    retry_backoff: float = option("sasl.login.retry.backoff.ms", 0.1, milliseconds(1))
    retry_backoff_max: float = option("sasl.login.retry.backoff.max.ms", 4.0, milliseconds(1))
    """The time for which a request to the token endpoint is repeated. Java repeats it for 10 seconds."""
    refresh_window_factor: float = option("sasl.login.refresh.window.factor", 0.8, decimal(0.5, 1.0))
    refresh_window_jitter: float = option("sasl.login.refresh.window.jitter", 0.05, decimal(0.0, 0.25))
    refresh_min_period: int = option("sasl.login.refresh.min.period.seconds", 60, integer(0, 900))
    refresh_buffer: int = option("sasl.login.refresh.buffer.seconds", 300, integer(0, 3600))

    # Who gives tokens
    callback_handler: str | None = option(HANDLER_KEY, None, str)
    retriever: str | None = option("sasl.oauthbearer.jwt.retriever.class", None, str)
    method: str = option("sasl.oauthbearer.method", "default", one_of("default", "oidc"))
    """Accepted, as librdkafka needs it. The other properties choose the source by themselves."""
    token: str | None = option(TOKEN_KEY, None, str, is_secret=True)
    oauth_cb: object | None = option("oauth_cb", None, _function, is_object=True)
    token_provider: object | None = option("sasl_oauth_token_provider", None, _provider, is_object=True)
    unsecured: bool = option("enable.sasl.oauthbearer.unsecure.jwt", False, boolean)
    config: str = option("sasl.oauthbearer.config", "", str, is_secret=True)
    """The argument of `oauth_cb`, or the claims of unsecured tokens; as in librdkafka."""

    # The token endpoint
    endpoint: str | None = option(ENDPOINT_KEY, None, str)
    grant_type: str = option("sasl.oauthbearer.grant.type", CLIENT_CREDENTIALS, one_of(CLIENT_CREDENTIALS, JWT_BEARER))
    client_id: str | None = option(CLIENT_ID_KEY, None, str, "sasl.oauthbearer.client.id")
    client_secret: str | None = option(CLIENT_SECRET_KEY, None, str, "sasl.oauthbearer.client.secret", is_secret=True)
    scope: str | None = option(SCOPE_KEY, None, str)
    extensions: tuple[tuple[str, str], ...] = option("sasl.oauthbearer.extensions", (), _pairs)
    urlencode_header: bool = option("sasl.oauthbearer.header.urlencode", False, boolean)
    ca_location: str | None = option("https.ca.location", None, str)
    ca_pem: str | None = option("https.ca.pem", None, str)

    # What tokens say
    scope_claim: str = option("sasl.oauthbearer.scope.claim.name", "scope", str)
    """Accepted, for files that brokers and clients share. Only brokers read the scope."""
    sub_claim: str = option("sasl.oauthbearer.sub.claim.name", "sub", str)

    # Assertions (KIP-1139)
    assertion_algorithm: str = option("sasl.oauthbearer.assertion.algorithm", "RS256", one_of(*ALGORITHMS))
    assertion_file: str | None = option("sasl.oauthbearer.assertion.file", None, str)
    assertion_key_file: str | None = option("sasl.oauthbearer.assertion.private.key.file", None, str)
    assertion_key_pem: str | None = option("sasl.oauthbearer.assertion.private.key.pem", None, str, is_secret=True)
    assertion_passphrase: str | None = option(
        "sasl.oauthbearer.assertion.private.key.passphrase", None, str, is_secret=True
    )
    assertion_template: str | None = option(
        "sasl.oauthbearer.assertion.template.file", None, str, "sasl.oauthbearer.assertion.jwt.template.file"
    )
    assertion_aud: str | None = option("sasl.oauthbearer.assertion.claim.aud", None, str)
    assertion_iss: str | None = option("sasl.oauthbearer.assertion.claim.iss", None, str)
    assertion_sub: str | None = option("sasl.oauthbearer.assertion.claim.sub", None, str)
    assertion_exp: int = option("sasl.oauthbearer.assertion.claim.exp.seconds", 300, integer(1))
    assertion_nbf: int = option("sasl.oauthbearer.assertion.claim.nbf.seconds", 60, integer(0))
    assertion_jti: bool = option("sasl.oauthbearer.assertion.claim.jti.include", False, boolean)
