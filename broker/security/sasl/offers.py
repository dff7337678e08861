"""Makes the mechanisms that a listener offers, from its configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial

from broker.config.definition import ConfigError
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.sasl import ENABLED, JAAS, MAX_REAUTH
from broker.security.sasl.authenticator import Offer
from broker.security.sasl.jaas import Login, example, read_login
from broker.security.sasl.mechanisms.interface import MakeMechanism
from broker.security.sasl.mechanisms.plain import PlainAccounts, PlainServer
from broker.security.sasl.mechanisms.scram import Find, ScramServer, UnknownUsers
from kafkalog.protocol.scram import ScramMechanism

logger = logging.getLogger(__name__)

FindCredentials = Callable[[ScramMechanism], Find]
"""Returns what finds the credentials of users for a mechanism."""
_SERVED = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def make_offer(listener: str, config: ListenerConfig, find: FindCredentials, unknown: UnknownUsers) -> Offer:
    """Make the mechanisms of a listener.

    Args:
        listener: its name, for messages.
        config: what is in force for it.
        find: finds the credentials of SCRAM's users.
        unknown: stands for users who have none.

    Raises:
        ConfigError: a mechanism cannot be used, or lacks what it needs.
    """
    names: tuple[str, ...] = tuple(dict.fromkeys(config[ENABLED]))
    key = config.name_of(ENABLED)
    if not names:
        raise ConfigError(f"{key}: the listener {listener} needs a mechanism: {', '.join(_SERVED)}")
    made: dict[str, MakeMechanism] = {}
    reauth: dict[str, int] = {}
    for name in names:
        if name not in _SERVED:
            raise ConfigError(
                f"{key}: the listener {listener} cannot have the SASL mechanism {name}: this broker has "
                f"{', '.join(_SERVED)}. Set {config.name_to_set(ENABLED)}={_SERVED[-1]}"
            )
        own = config.of_mechanism(name)
        login = read_login(own, name)
        made[name] = _make(name, own, login, find, unknown)
        reauth[name] = own[MAX_REAUTH]
    if config.own(JAAS) is not None:
        logger.warning(
            "%s has no effect without a mechanism: set %s instead",
            config.name_to_set(JAAS),
            config.of_mechanism(names[0]).name_to_set(JAAS),
        )
    return Offer(made, reauth)


def _make(
    name: str, config: ListenerConfig, login: Login | None, find: FindCredentials, unknown: UnknownUsers
) -> MakeMechanism:
    mechanism = ScramMechanism.of_name(name)
    if mechanism is not None:
        return partial(ScramServer, mechanism, find(mechanism), unknown)
    accounts = PlainAccounts({} if login is None else login.accounts)
    if not accounts:
        raise ConfigError(
            f"{config.name_to_set(JAAS)}: nobody has an account, so that nobody could log in by PLAIN: "
            f"write accounts as in {example(name)}"
        )
    return partial(PlainServer, accounts)
