"""The login of this broker to the other brokers of its cluster."""

from __future__ import annotations

from collections.abc import Callable

from broker.config.definition import ConfigError
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.sasl import BETWEEN_BROKERS, ENABLED, JAAS
from broker.security.sasl.jaas import example, read_login
from kafkalog.protocol.wire.sasl import Mechanism, SaltedPasswords, make_mechanism

_SERVED = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def make_login(listener: str, mechanism: str, config: ListenerConfig) -> Callable[[], Mechanism]:
    """Make what makes the client's side of each authentication with another broker.

    Args:
        listener: the listener between brokers, for messages.
        mechanism: `sasl.mechanism.inter.broker.protocol`.
        config: what is in force for the listener.

    Raises:
        ConfigError: the mechanism cannot be used, or there are no credentials for it.
    """
    if mechanism not in _SERVED:
        raise ConfigError(
            f"{BETWEEN_BROKERS}={mechanism}: brokers log in to each other by {', '.join(_SERVED)}: set "
            f"{BETWEEN_BROKERS}={_SERVED[-1]}, and {config.of_mechanism(_SERVED[-1]).name_to_set(JAAS)}"
        )
    if mechanism not in config[ENABLED]:
        raise ConfigError(
            f"{BETWEEN_BROKERS}={mechanism}: the listener {listener} does not offer it: add it to "
            f"{config.name_to_set(ENABLED)}"
        )
    own = config.of_mechanism(mechanism)
    login = read_login(own, mechanism)
    username = "" if login is None else login.options.get("username", "")
    password = "" if login is None else login.options.get("password", "")
    if not username or not password:
        raise ConfigError(
            f"{own.name_to_set(JAAS)}: the options username and password are missing, by which this broker logs in to "
            f"others: write {example(mechanism)}"
        )
    salted = SaltedPasswords()
    return lambda: make_mechanism(mechanism, username, password, salted)
