"""Makes what checks the tokens of a listener, from its configuration.

Kafka's default takes tokens without a signature, so that anybody may be anybody. Here a listener needs the URL of keys,
or the name of the class that Kafka's default is.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from broker.config.definition import ConfigError
from broker.config.listeners import Endpoint
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.sasl import ENABLED, SERVER_HANDLER
from broker.security.sasl.jaas import Login
from broker.security.sasl.mechanisms.interface import MakeMechanism
from broker.security.sasl.mechanisms.oauthbearer import Check, OAuthBearerServer
from broker.security.sasl.oauth.fetching import URL_KEY, Refreshing, RemoteKeys
from broker.security.sasl.oauth.jwt import Expected, ValidToken, check_claims, check_installed, parse_jwt
from broker.security.sasl.oauth.unsecured import UnsecuredValidator

_KAFKA = "org.apache.kafka.common.security.oauthbearer."
SECURED = (
    f"{_KAFKA}OAuthBearerValidatorCallbackHandler",
    f"{_KAFKA}secured.OAuthBearerValidatorCallbackHandler",
)
"""Kafka's names of the class that checks signatures."""
UNSECURED = f"{_KAFKA}internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
_LOOPBACK = ("localhost", "::1")


def make_oauthbearer(
    endpoint: Endpoint, config: ListenerConfig, login: Login | None, add_keys: Callable[[RemoteKeys], None]
) -> MakeMechanism:
    """Make what makes the server's side of OAUTHBEARER.

    Args:
        endpoint: the listener.
        config: what is in force for the listener and the mechanism.
        login: its login module, if it has one.
        add_keys: called with the keys that have to be fetched before the listener serves.

    Raises:
        ConfigError: nothing says how tokens are checked, or it cannot be done so.
    """
    handler, url = config[SERVER_HANDLER], config[URL_KEY]
    name = config.name_of(SERVER_HANDLER)
    if handler not in (None, UNSECURED, *SECURED):
        raise ConfigError(f"{name} names a class of Java's, which cannot run here; known is {SECURED[-1]}")
    check_installed(config.name_of(ENABLED))
    if handler == UNSECURED:
        return partial(OAuthBearerServer, _unsecured(endpoint, login, name))
    if not url:
        raise ConfigError(
            f"{config.name_to_set(URL_KEY)}: tokens of the listener {endpoint.name} are checked with the public keys "
            "of their issuer: set the URL of its JSON Web Key Set"
        )
    refreshing = Refreshing(
        config["sasl.oauthbearer.jwks.endpoint.refresh.ms"] / 1000,
        config["sasl.oauthbearer.jwks.endpoint.retry.backoff.ms"] / 1000,
        config["sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms"] / 1000,
    )
    keys = RemoteKeys(url, config.name_of(URL_KEY), refreshing)
    add_keys(keys)
    expected = Expected(
        config["sasl.oauthbearer.expected.issuer"] or None,
        tuple(config["sasl.oauthbearer.expected.audience"] or ()),
        config["sasl.oauthbearer.clock.skew.seconds"],
        config["sasl.oauthbearer.sub.claim.name"],
        config["sasl.oauthbearer.scope.claim.name"],
    )
    return partial(OAuthBearerServer, _secured(keys, expected))


def _secured(keys: RemoteKeys, expected: Expected, seconds: Callable[[], float] = time.time) -> Check:
    def check(text: str) -> ValidToken:
        token = parse_jwt(text)
        keys.verify(token)
        return check_claims(token.claims, expected, seconds())

    return check


def _unsecured(endpoint: Endpoint, login: Login | None, name: str, seconds: Callable[[], float] = time.time) -> Check:
    if not (endpoint.host in _LOOPBACK or endpoint.host.startswith("127.")):
        raise ConfigError(
            f"{name}: the listener {endpoint.name} would take tokens without a signature, which anybody can make: bind "
            f"it to 127.0.0.1, or set {URL_KEY} and {SECURED[-1]}"
        )
    validator = UnsecuredValidator.of_options({} if login is None else login.options, name)

    def check(text: str) -> ValidToken:
        return validator.check(parse_jwt(text), seconds())

    return check
