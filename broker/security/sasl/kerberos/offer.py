"""Makes the mechanism GSSAPI of a listener from its configuration."""

from __future__ import annotations

from functools import partial

from broker.config.definition import ConfigError
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.sasl import ENABLED, JAAS, NAME_RULES
from broker.security.sasl.jaas import Login, example
from broker.security.sasl.kerberos.names import KerberosName, NameRules, NoUserError, RulesError
from broker.security.sasl.mechanisms.gssapi import GssapiServer
from broker.security.sasl.mechanisms.interface import MakeMechanism


def make_gssapi(config: ListenerConfig, login: Login | None) -> MakeMechanism:
    """Make what makes the server's side of GSSAPI.

    Args:
        config: what is in force for the listener and the mechanism.
        login: its login module, if it has one.

    Raises:
        ConfigError: there is no keytab that can be used, or a package is missing.
    """
    name = config.name_to_set(JAAS)
    options = {} if login is None else login.options
    keytab, principal = options.get("keyTab", ""), options.get("principal", "")
    if not keytab or not principal:
        raise ConfigError(
            f"{name}: GSSAPI needs the broker's keytab and principal: write {example('GSSAPI')} Or choose another "
            f"mechanism, such as {config.name_of(ENABLED)}=SCRAM-SHA-512"
        )
    try:
        realm = KerberosName.parse(principal).realm
    except NoUserError as error:
        raise ConfigError(f"{name}: {error}") from None
    if realm is None:
        raise ConfigError(f"{name}: the realm is missing in principal={principal}: write {principal}@REALM")
    try:
        rules = NameRules(config[NAME_RULES], realm)
    except RulesError as error:
        raise ConfigError(f"{config.name_of(NAME_RULES)}: {error}") from None
    # Only who uses Kerberos needs its library.
    from broker.security.sasl.kerberos.library import Acceptor

    return partial(GssapiServer, Acceptor(keytab.removeprefix("file://"), principal, name).accept, rules)
