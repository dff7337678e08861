"""The options of one listener's TLS, from the broker's configuration."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from broker.config.definition import ConfigError
from broker.config.security.listener_config import ListenerConfig
from broker.config.security.tls import CLIENT_AUTH
from kafkalog.client.errors import ConfigError as ClientConfigError
from kafkalog.client.security.tls_options import PROTOCOLS, TlsOptions

T = TypeVar("T")
_KEY = re.compile(r"\bssl\.[a-z]+(?:\.[a-z]+)*")


def options_of(listener: ListenerConfig) -> TlsOptions:
    """Return the options of a listener; what they name is not read yet."""

    def pem(key: str) -> str | None:
        text = listener[key]
        return text.replace("\\n", "\n") if text else None

    def kind(key: str) -> str | None:
        return listener[key] if listener.is_set(key) else None

    enabled = listener["ssl.enabled.protocols"]
    return TlsOptions(
        truststore_location=listener["ssl.truststore.location"] or None,
        truststore_password=listener["ssl.truststore.password"],
        truststore_type=kind("ssl.truststore.type"),
        truststore_certificates=pem("ssl.truststore.certificates"),
        identify_endpoint=bool(listener["ssl.endpoint.identification.algorithm"]),
        keystore_location=listener["ssl.keystore.location"] or None,
        keystore_password=listener["ssl.keystore.password"],
        keystore_type=kind("ssl.keystore.type"),
        keystore_key=pem("ssl.keystore.key"),
        keystore_chain=pem("ssl.keystore.certificate.chain"),
        key_password=listener["ssl.key.password"],
        protocol=listener["ssl.protocol"],
        enabled_protocols=tuple(each for each in PROTOCOLS if each in enabled),
        cipher_suites=tuple(listener["ssl.cipher.suites"]),
    )


def client_auth(listener: ListenerConfig, protocol: str) -> str:
    """Return whether a listener wants certificates of clients: none, requested or required.

    As in Kafka, a listener of the protocol SASL_SSL only heeds a value of its own: its clients log in.
    """
    found: str = listener[CLIENT_AUTH]
    if protocol == "SASL_SSL":
        found = listener.own(CLIENT_AUTH) or "none"
    return found


def of_listener(name: str, listener: ListenerConfig, work: Callable[[], T]) -> T:
    """Do something with the options of a listener.

    Raises:
        ConfigError: it cannot be done. The message has the listener, and the keys as they are set.
    """
    try:
        return work()
    except ClientConfigError as error:
        text = _KEY.sub(lambda match: listener.name_of(match[0]), str(error))
        raise ConfigError(f"Listener {name}: {text}") from None
