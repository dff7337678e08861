"""The login of this broker to the other brokers of its cluster."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import TYPE_CHECKING

from broker.config.definition import ConfigError
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.logins import LOGIN_HANDLER, LOGIN_KEYS
from broker.config.security.sasl import BETWEEN_BROKERS, ENABLED, JAAS, JAAS_FILE
from broker.security.sasl.jaas import example, read_login
from broker.system.workers import Workers
from kafkalog.protocol.wire.sasl import Mechanism, SaltedPasswords, make_mechanism

if TYPE_CHECKING:
    from kafkalog.client.security.mechanisms import MechanismFactory

_BY_PASSWORD = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_BY_OTHERS = ("OAUTHBEARER", "GSSAPI")
"""Mechanisms whose credentials come from other servers. The clients' code gets them."""


class NoCredentialsError(Exception):
    """There are no credentials to log in with at present; the message says why."""


class BrokerLogin:
    """Makes the client's side of each authentication with another broker.

    Args:
        make: makes a mechanism for a host, until a deadline of `time.monotonic`.
        is_slow: whether that may ask other servers.
    """

    def __init__(self, make: MechanismFactory, *, is_slow: bool) -> None:
        self._make = make
        self._is_slow = is_slow
        self._turn = asyncio.Lock()
        """Held while a worker asks another server. All links wait for the same answer, and need one worker only."""

    async def mechanism(self, host: str, timeout_s: float, workers: Workers) -> Mechanism:
        """Make a mechanism for one authentication with the broker on a host.

        Raises:
            NoCredentialsError: there is nothing to send.
        """
        if not self._is_slow:
            return self._make(host, float("inf"))
        from kafkalog.client.errors import ClientError

        async with self._turn:
            try:
                return await workers.run(partial(self._make, host, time.monotonic() + timeout_s))
            except ClientError as error:
                raise NoCredentialsError(str(error)) from error


def make_login(listener: str, mechanism: str, config: ListenerConfig) -> BrokerLogin:
    """Make what makes the client's side of each authentication with another broker.

    Args:
        listener: the listener between brokers, for messages.
        mechanism: `sasl.mechanism.inter.broker.protocol`.
        config: what is in force for the listener.

    Raises:
        ConfigError: the mechanism cannot be used, or there are no credentials for it.
    """
    if mechanism not in _BY_PASSWORD + _BY_OTHERS:
        raise ConfigError(
            f"{BETWEEN_BROKERS}={mechanism}: brokers log in to each other by {', '.join(_BY_PASSWORD + _BY_OTHERS)}: "
            f"set {BETWEEN_BROKERS}={_BY_PASSWORD[-1]}, and {config.of_mechanism(_BY_PASSWORD[-1]).name_to_set(JAAS)}"
        )
    if mechanism not in config[ENABLED]:
        raise ConfigError(
            f"{BETWEEN_BROKERS}={mechanism}: the listener {listener} does not offer it: add it to "
            f"{config.name_to_set(ENABLED)}"
        )
    own = config.of_mechanism(mechanism)
    return _by_others(own, mechanism) if mechanism in _BY_OTHERS else _by_password(own, mechanism)


def _by_password(config: ListenerConfig, mechanism: str) -> BrokerLogin:
    login = read_login(config, mechanism)
    username = "" if login is None else login.options.get("username", "")
    password = "" if login is None else login.options.get("password", "")
    if not username or not password:
        raise ConfigError(
            f"{config.name_to_set(JAAS)}: the options username and password are missing, by which this broker logs in "
            f"to others: write {example(mechanism)} or name a JAAS file by {JAAS_FILE}"
        )
    salted = SaltedPasswords()
    return BrokerLogin(lambda host, deadline: make_mechanism(mechanism, username, password, salted), is_slow=False)


def _by_others(config: ListenerConfig, mechanism: str) -> BrokerLogin:
    # Only who uses these mechanisms needs the clients' code.
    from kafkalog.client.config import ClientConfig
    from kafkalog.client.errors import ConfigError as ClientConfigError
    from kafkalog.client.security.mechanisms import make_mechanisms
    from kafkalog.client.security.oauth.sources import JAVA_HANDLERS

    login = read_login(config, mechanism)
    handler = config[LOGIN_HANDLER]
    if handler is not None and handler not in JAVA_HANDLERS:
        raise ConfigError(
            f"{config.name_of(LOGIN_HANDLER)} names a class of Java's, which cannot run here; known is "
            f"{JAVA_HANDLERS[0]}"
        )
    properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
    if login is not None:
        properties[JAAS] = login.text
    # Defaults, too: some are not those of our clients.
    properties |= {key.name: str(config[key.name]) for key in LOGIN_KEYS if config[key.name] is not None}
    try:
        made = make_mechanisms(ClientConfig.from_dict(properties))
    except ClientConfigError as error:
        raise ConfigError(f"the login of this broker to others ({config.name_to_set('…')}): {error}") from error
    assert made is not None
    return BrokerLogin(made, is_slow=True)
