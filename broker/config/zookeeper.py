"""Broker keys of the session with ZooKeeper: its address and times, TLS, login, and access lists.

Names and defaults are those of Apache Kafka 3.9 (`ZkConfigs`). The login has a key of our own, because Kafka's brokers
take it from a file that a property of the Java process names.
"""

from __future__ import annotations

from broker.config.definition import ConfigError, ConfigKey, Type, Validator, Value, at_least
from kafkalog.zookeeper import properties as shared
from kafkalog.zookeeper.security import JAAS_KEY

_STORES = "JKS, PKCS12 or PEM; what the file contains is recognised"


def _is_off(name: str, value: Value) -> None:
    """Refuse to enable a check that this broker does not make, so that nobody relies on it."""
    if value:
        raise ConfigError(f"{name}=true: {shared.NO_REVOCATION}")


def _is_algorithm(name: str, value: Value) -> None:
    if not shared.is_identification(value):
        raise ConfigError(f"Invalid value {value} for configuration {name}: {shared.EXPECTED_IDENTIFICATION}")


def _key(
    of_both: shared.Property, kind: Type, doc: str, validator: Validator | None = None, *, effect: bool = True
) -> ConfigKey:
    """Declare a property that clients have, too."""
    is_list = kind is Type.LIST
    return ConfigKey(
        of_both.name, kind, of_both.default, doc, validator, effect=effect, member=True, skips_empty=is_list
    )


ZOOKEEPER_KEYS = [
    ConfigKey("zookeeper.connect", Type.STRING, None, "The ZooKeeper of the cluster that this broker belongs to: host:port, or several with commas between them, and a path below which the cluster's nodes are (/kafka). Unset, the broker is a cluster of its own."),
    ConfigKey("zookeeper.session.timeout.ms", Type.INT, 18_000, "After so long without a word from this broker ZooKeeper takes it for dead.", at_least(1), member=True),
    ConfigKey("zookeeper.connection.timeout.ms", Type.INT, None, "How long the start waits for ZooKeeper. The default is zookeeper.session.timeout.ms.", at_least(1), member=True),
    ConfigKey("zookeeper.max.in.flight.requests", Type.INT, 10, "Requests to ZooKeeper are sent without waiting for the answers to others.", at_least(1), effect=False, member=True),
    _key(shared.SET_ACL, Type.BOOLEAN, f"Whether only brokers with the same identity may change the nodes that this broker makes, and read those of users and brokers. It needs a login ({JAAS_KEY}), or a certificate (zookeeper.ssl.keystore.location)."),
    _key(shared.JAAS, Type.PASSWORD, 'How the broker logs in: org.apache.zookeeper.server.auth.DigestLoginModule required username="…" password="…"; (SASL DIGEST-MD5). It is the content of the section Client of the file that Kafka\'s brokers get by -Djava.security.auth.login.config.'),
    _key(shared.CLIENT_ENABLE, Type.BOOLEAN, "Whether the broker speaks TLS with ZooKeeper, at its secureClientPort. The other zookeeper.ssl keys have an effect only then."),
    _key(shared.CLIENT_CNXN_SOCKET, Type.STRING, "Kafka's brokers need the name of a Java class here for TLS.", effect=False),
    _key(shared.TRUSTSTORE_LOCATION, Type.STRING, "The certificates of the authorities that may have signed ZooKeeper's. Unset, those of the system."),
    _key(shared.TRUSTSTORE_PASSWORD, Type.PASSWORD, "The password of that file; PEM has none."),
    _key(shared.TRUSTSTORE_TYPE, Type.STRING, f"Its type: {_STORES}."),
    _key(shared.KEYSTORE_LOCATION, Type.STRING, "The broker's certificate with its private key, where ZooKeeper wants one (its ssl.clientAuth)."),
    _key(shared.KEYSTORE_PASSWORD, Type.PASSWORD, "The password of that file, and of the key in it; PEM has none."),
    _key(shared.KEYSTORE_TYPE, Type.STRING, f"Its type: {_STORES}."),
    _key(shared.PROTOCOL, Type.STRING, "The oldest version of TLS that the broker speaks, where zookeeper.ssl.enabled.protocols is not set; Kafka's brokers speak no newer one then."),
    _key(shared.ENABLED_PROTOCOLS, Type.LIST, "The versions of TLS: TLSv1.2, TLSv1.3."),
    _key(shared.CIPHER_SUITES, Type.LIST, "The cipher suites of TLS up to 1.2; unset, those that OpenSSL offers."),
    _key(shared.ENDPOINT_IDENTIFICATION, Type.STRING, "Whether ZooKeeper's certificate must be for the host of zookeeper.connect: HTTPS, or nothing to turn it off.", _is_algorithm),
    _key(shared.CRL_ENABLE, Type.BOOLEAN, "Lists of revoked certificates are not read: true is refused.", _is_off, effect=False),
    _key(shared.OCSP_ENABLE, Type.BOOLEAN, "Nobody is asked about revoked certificates: true is refused.", _is_off, effect=False),
]  # fmt: skip
