"""The properties that secure a session with ZooKeeper: their names, their defaults, and what their values may be.

Brokers and clients declare them by this table, each in its own kind of configuration. Names and defaults are those of
Apache Kafka 3.9 (`ZkConfigs`).
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalog.zookeeper.security import JAAS_KEY


class Property(NamedTuple):
    """A property."""

    name: str
    default: str | bool | None
    """None stands for unset."""


SET_ACL = Property("zookeeper.set.acl", False)
JAAS = Property(JAAS_KEY, None)
CLIENT_ENABLE = Property("zookeeper.ssl.client.enable", False)
CLIENT_CNXN_SOCKET = Property("zookeeper.clientCnxnSocket", None)
TRUSTSTORE_LOCATION = Property("zookeeper.ssl.truststore.location", None)
TRUSTSTORE_PASSWORD = Property("zookeeper.ssl.truststore.password", None)
TRUSTSTORE_TYPE = Property("zookeeper.ssl.truststore.type", None)
KEYSTORE_LOCATION = Property("zookeeper.ssl.keystore.location", None)
KEYSTORE_PASSWORD = Property("zookeeper.ssl.keystore.password", None)
KEYSTORE_TYPE = Property("zookeeper.ssl.keystore.type", None)
PROTOCOL = Property("zookeeper.ssl.protocol", "TLSv1.2")
ENABLED_PROTOCOLS = Property("zookeeper.ssl.enabled.protocols", None)
CIPHER_SUITES = Property("zookeeper.ssl.cipher.suites", None)
ENDPOINT_IDENTIFICATION = Property("zookeeper.ssl.endpoint.identification.algorithm", "HTTPS")
CRL_ENABLE = Property("zookeeper.ssl.crl.enable", False)
OCSP_ENABLE = Property("zookeeper.ssl.ocsp.enable", False)

EXPECTED_IDENTIFICATION = "expected HTTPS, or nothing to turn it off"
"""Says which values `is_identification` takes."""
NO_REVOCATION = "revoked certificates are not looked for; leave it false"
"""Says why CRL_ENABLE and OCSP_ENABLE cannot be true: nobody must rely on a check that is not made."""


def is_identification(text: str) -> bool:
    """Return whether a text may be the value of ENDPOINT_IDENTIFICATION."""
    return text.lower() in ("https", "")
