"""Makes the mechanisms that a listener offers, from its configuration."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from broker.config.definition import ConfigError
from broker.config.listeners import Endpoint
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.sasl import ENABLED, JAAS, JAAS_FILE, MAX_REAUTH
from broker.security.sasl.authenticator import Offer
from broker.security.sasl.jaas import Login, example, read_login
from broker.security.sasl.kerberos.offer import make_gssapi
from broker.security.sasl.mechanisms.interface import MakeMechanism
from broker.security.sasl.mechanisms.plain import PlainAccounts, PlainServer
from broker.security.sasl.mechanisms.scram import Find, FindToken, ScramServer, UnknownUsers
from broker.security.sasl.oauth.fetching import RemoteKeys
from broker.security.sasl.oauth.offer import make_oauthbearer
from kafkalog.protocol.scram import ScramMechanism

logger = logging.getLogger(__name__)

FindCredentials = Callable[[ScramMechanism], Find]
"""Returns what finds the credentials of users for a mechanism."""
_SERVED = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI")
_REMEDY = "SCRAM-SHA-512"


@dataclass(frozen=True, slots=True)
class Sources:
    """Sources of what mechanisms check credentials with."""

    find: FindCredentials
    """Finds the credentials of SCRAM's users."""
    find_tokens: Callable[[ScramMechanism], FindToken]
    """Finds the credentials of delegation tokens."""
    unknown: UnknownUsers
    """Stands for users who have none."""
    add_keys: Callable[[RemoteKeys], None]
    """Takes the keys of authorization servers, which have to be fetched before a listener serves."""


def make_offer(endpoint: Endpoint, config: ListenerConfig, sources: Sources) -> Offer:
    """Make the mechanisms of a listener.

    Args:
        endpoint: the listener.
        config: what is in force for it.
        sources: where mechanisms have what they check credentials with.

    Raises:
        ConfigError: a mechanism cannot be used, or lacks what it needs.
    """
    listener = endpoint.name
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
                f"{', '.join(_SERVED)}. Set {config.name_to_set(ENABLED)}={_REMEDY}"
            )
        own = config.of_mechanism(name)
        login = read_login(own, name)
        made[name] = _make(name, endpoint, own, login, sources)
        reauth[name] = own[MAX_REAUTH]
    if config.own(JAAS) is not None:
        logger.warning(
            "%s has no effect without a mechanism: set %s instead",
            config.name_to_set(JAAS),
            config.of_mechanism(names[0]).name_to_set(JAAS),
        )
    return Offer(made, reauth)


def _make(
    name: str, endpoint: Endpoint, config: ListenerConfig, login: Login | None, sources: Sources
) -> MakeMechanism:
    mechanism = ScramMechanism.of_name(name)
    if mechanism is not None:
        return partial(
            ScramServer, mechanism, sources.find(mechanism), sources.unknown, find_token=sources.find_tokens(mechanism)
        )
    if name == "OAUTHBEARER":
        return make_oauthbearer(endpoint, config, login, sources.add_keys)
    if name == "GSSAPI":
        return make_gssapi(config, login)
    accounts = PlainAccounts({} if login is None else login.accounts)
    if not accounts:
        raise ConfigError(
            f"{config.name_to_set(JAAS)}: nobody has an account, so that nobody could log in by PLAIN: "
            f"write accounts as in {example(name)} or name a JAAS file by {JAAS_FILE}"
        )
    return partial(PlainServer, accounts)
