"""Reads `sasl.jaas.config` of the broker: the accounts of PLAIN, and how the broker logs in to other brokers.

The text names a class of Java's. Which classes there are stands in a table here; nothing is loaded by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from broker.config.definition import ConfigError
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.sasl import JAAS

_KAFKA = "org.apache.kafka.common.security."
MODULES = {
    "PLAIN": f"{_KAFKA}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_KAFKA}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_KAFKA}scram.ScramLoginModule",
    "OAUTHBEARER": f"{_KAFKA}oauthbearer.OAuthBearerLoginModule",
    "GSSAPI": "com.sun.security.auth.module.Krb5LoginModule",
}
"""The login module of each mechanism."""
_EXAMPLES = {
    "PLAIN": 'required username="broker" password="…" user_broker="…" user_alice="…";',
    "SCRAM-SHA-256": 'required username="broker" password="…";',
    "SCRAM-SHA-512": 'required username="broker" password="…";',
    "OAUTHBEARER": "required;",
    "GSSAPI": 'required useKeyTab=true storeKey=true keyTab="/etc/kafka.keytab" principal="kafka/host@REALM";',
}
_ACCOUNT = "user_"


@dataclass(frozen=True)
class Login:
    """The options of a login module."""

    name: str
    """The configuration that they come from, for messages."""
    options: Mapping[str, str] = field(repr=False)
    """The options by name; passwords are among them."""

    @property
    def accounts(self) -> dict[str, str]:
        """The accounts of PLAIN: passwords by the user's name."""
        return {
            option.removeprefix(_ACCOUNT): value
            for option, value in self.options.items()
            if option.startswith(_ACCOUNT) and option != _ACCOUNT
        }


def example(mechanism: str) -> str:
    """Return a right value of `sasl.jaas.config` for a mechanism."""
    return f"{MODULES[mechanism]} {_EXAMPLES[mechanism]}"


def read_login(config: ListenerConfig, mechanism: str) -> Login | None:
    """Read the login module of a listener's mechanism; None if none is set.

    Args:
        config: what is in force for the listener and the mechanism.
        mechanism: the mechanism.

    Raises:
        ConfigError: the text cannot be read, or its module is that of another mechanism. The message shows no values.
    """
    text = config.own(JAAS)
    if text is None:
        return None
    # Only who uses SASL needs the client's code.
    from kafkalog.client.errors import ConfigError as ClientConfigError
    from kafkalog.client.security.jaas import parse_entry

    name = config.name_to_set(JAAS)
    try:
        module, _, options = parse_entry(text, name, example(mechanism))
    except ClientConfigError as error:
        raise ConfigError(str(error)) from None
    if module != MODULES[mechanism]:
        raise ConfigError(
            f"{name}: the login module of {mechanism} is {MODULES[mechanism]}; write {example(mechanism)}"
        )
    return Login(name, options)
