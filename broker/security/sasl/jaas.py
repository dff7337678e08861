"""Reads the login modules of the broker: the accounts of PLAIN, and how the broker logs in to other brokers.

They stand in `sasl.jaas.config`, or in a JAAS file. The text names a class of Java's. Which classes there are stands in
a table here; nothing is loaded by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from broker.config.definition import ConfigError
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.sasl import JAAS, JAAS_FILE

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
_SECTION = "KafkaServer"
_MAX_FILE = 1 << 20


@dataclass(frozen=True)
class Login:
    """The options of a login module."""

    name: str
    """The configuration that they come from, for messages."""
    module: str
    """The name of the module's class."""
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

    @property
    def text(self) -> str:
        """The module with its options, as `sasl.jaas.config` has it."""
        return f"{self.module} required {' '.join(f'{_quoted(k)}={_quoted(v)}' for k, v in self.options.items())};"


def example(mechanism: str) -> str:
    """Return a right value of `sasl.jaas.config` for a mechanism."""
    return f"{MODULES[mechanism]} {_EXAMPLES[mechanism]}"


def read_login(config: ListenerConfig, mechanism: str) -> Login | None:
    """Read the login module of a listener's mechanism; None if none is set. Kafka does so in `JaasContext`.

    Args:
        config: what is in force for the listener and the mechanism.
        mechanism: the mechanism.

    Raises:
        ConfigError: the text cannot be read, or its module is that of another mechanism. The message shows no values.
    """
    text = config.own(JAAS)
    if text is None:
        path = config[JAAS_FILE]
        return None if path is None else _of_file(path, config.listener, mechanism)
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
    return Login(name, module, options)


def _of_file(path: str, listener: str, mechanism: str) -> Login | None:
    from kafkalog.client.errors import ConfigError as ClientConfigError
    from kafkalog.client.security.jaas import parse_sections

    name = f"{JAAS_FILE}={path}"
    try:
        with Path(path).open(encoding="utf-8") as file:
            text = file.read(_MAX_FILE + 1)
        if len(text) > _MAX_FILE:
            raise ConfigError(f"{name} is no JAAS file: it has more than {_MAX_FILE} characters")
        sections = parse_sections(text, name)
    except OSError as error:
        raise ConfigError(f"{name} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{name} cannot be read: it is no text in UTF-8") from error
    except ClientConfigError as error:
        raise ConfigError(str(error)) from None
    wanted = (f"{listener.lower()}.{_SECTION}", _SECTION)
    found = next((each for each in wanted if each in sections), None)
    if found is None:
        raise ConfigError(f"{name} has no section {' or '.join(wanted)}, which the listener {listener} needs")
    options = next((each for module, _, each in sections[found] if module == MODULES[mechanism]), None)
    if options is None:
        return None
    if any("${" in value for value in options.values()):
        raise ConfigError(
            f"{name}: the section {found} has a value with ${{…}}, which Java replaces by a property of its own: write "
            "the value itself"
        )
    return Login(f"{name}, section {found}", MODULES[mechanism], options)


def _quoted(text: str) -> str:
    for char, escaped in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r")):
        text = text.replace(char, escaped)
    return f'"{text}"'
