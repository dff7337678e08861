"""The properties that secure a session with ZooKeeper, under the names that Kafka's brokers have for them.

Stores of certificates and the text of a login are read as those of connections to brokers are. Their properties have
the same names there without the beginning `zookeeper.`.

Source: `ZkConfigs` of Kafka 3.9. The login has a name of our own (`JAAS_KEY`).
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkalog.client.errors import ConfigError
from kafkalog.client.properties.options import boolean, option, read_options
from kafkalog.client.security.jaas import parse_entry
from kafkalog.client.security.tls import TlsContexts
from kafkalog.client.security.tls_options import PROTOCOLS, TlsOptions
from kafkalog.zookeeper import properties as shared
from kafkalog.zookeeper.security import JAAS_KEY, Login, Security

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
_EXAMPLE = f'{DIGEST} required username="…" password="…";'
_OWN_NAME = re.compile(r"(?<![\w./-])ssl\.")


def _algorithm(text: str) -> str:
    if not shared.is_identification(text):
        raise ConfigError(shared.EXPECTED_IDENTIFICATION)
    return text


def _is_off(text: str) -> bool:
    if boolean(text):
        raise ConfigError(shared.NO_REVOCATION)
    return False


@dataclass(frozen=True)
class SecurityOptions:
    """The security of a session, as properties describe it."""

    client_enable: bool = option(*shared.CLIENT_ENABLE, boolean)
    """True if the session uses TLS. The other properties of TLS have an effect only then."""
    client_cnxn_socket: str | None = option(*shared.CLIENT_CNXN_SOCKET, str)
    """Kafka needs the name of a Java class here for TLS."""
    truststore_location: str | None = option(*shared.TRUSTSTORE_LOCATION, str)
    truststore_password: str | None = option(*shared.TRUSTSTORE_PASSWORD, str, is_secret=True)
    truststore_type: str | None = option(*shared.TRUSTSTORE_TYPE, str)
    keystore_location: str | None = option(*shared.KEYSTORE_LOCATION, str)
    keystore_password: str | None = option(*shared.KEYSTORE_PASSWORD, str, is_secret=True)
    keystore_type: str | None = option(*shared.KEYSTORE_TYPE, str)
    protocol: str = option(*shared.PROTOCOL, str)
    """The oldest version of TLS, unless `enabled_protocols` is set."""
    enabled_protocols: str | None = option(*shared.ENABLED_PROTOCOLS, str)
    cipher_suites: str | None = option(*shared.CIPHER_SUITES, str)
    endpoint_identification: str = option(*shared.ENDPOINT_IDENTIFICATION, _algorithm)
    crl_enable: bool = option(*shared.CRL_ENABLE, _is_off)
    ocsp_enable: bool = option(*shared.OCSP_ENABLE, _is_off)
    jaas: str | None = option(*shared.JAAS, str, is_secret=True)
    set_acl: bool = option(*shared.SET_ACL, boolean)
    """True if only this identity may change the nodes that are made."""

    def security(self) -> Security:
        """Return what secures the session; reads the files that the properties name.

        Raises:
            ConfigError: Properties contradict each other, a store cannot be read, or a package is missing.
        """
        login = None if self.jaas is None else _login(self.jaas)
        if self.set_acl and login is None and not (self.client_enable and self.keystore_location):
            raise ConfigError(
                f"zookeeper.set.acl is true, and there is no identity: set {JAAS_KEY}, or "
                "zookeeper.ssl.client.enable and zookeeper.ssl.keystore.location"
            )
        return Security(self._contexts() if self.client_enable else None, login, self.set_acl)

    def _contexts(self) -> TlsContexts:
        properties = {
            "ssl.truststore.location": self.truststore_location,
            "ssl.truststore.password": self.truststore_password,
            "ssl.truststore.type": self.truststore_type,
            "ssl.keystore.location": self.keystore_location,
            "ssl.keystore.password": self.keystore_password,
            "ssl.keystore.type": self.keystore_type,
            "ssl.enabled.protocols": self.enabled_protocols or self._protocols(),
            "ssl.cipher.suites": self.cipher_suites,
            "ssl.endpoint.identification.algorithm": self.endpoint_identification,
        }
        try:
            values, _ = read_options(TlsOptions, {key: text for key, text in properties.items() if text is not None})
            contexts = TlsContexts(TlsOptions(**values))
            contexts()
        except ConfigError as error:
            raise ConfigError(_OWN_NAME.sub("zookeeper.ssl.", str(error))) from None
        return contexts

    def _protocols(self) -> str:
        """Return the versions of TLS. A server of ZooKeeper 3.9 speaks 1.3 alone by default, older ones 1.2."""
        if self.protocol not in PROTOCOLS:
            return self.protocol
        return ",".join(PROTOCOLS[PROTOCOLS.index(self.protocol) :])


def read_security(properties: Mapping[str, Any]) -> tuple[SecurityOptions, dict[str, Any]]:
    """Take the properties that secure a session with ZooKeeper.

    Returns:
        The options, and the other properties.

    Raises:
        ConfigError: A property cannot have its value.
    """
    values, rest = read_options(SecurityOptions, properties)
    return SecurityOptions(**values), rest


def _login(text: str) -> Login:
    module, _, options = parse_entry(text, JAAS_KEY, _EXAMPLE)
    if module != DIGEST:
        raise ConfigError(f"{JAAS_KEY}: the login module is not known; the one that is known is {DIGEST}")
    if not options.get("username") or "password" not in options:
        raise ConfigError(f"{JAAS_KEY}: username or password is missing; write it as in: {_EXAMPLE}")
    if importlib.util.find_spec("puresasl") is None:
        raise ConfigError(f"{JAAS_KEY}: a login needs the package pure-sasl: pip install 'kafkalog[zookeeper-sasl]'")
    return Login(options["username"], options["password"])
