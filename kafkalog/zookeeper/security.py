"""The security of a session with ZooKeeper: TLS, a login, and the access lists of the nodes that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl

JAAS_KEY = "kafkalog.zookeeper.sasl.jaas.config"
"""The key of a login. It is our own: Kafka takes a login from a file that a property of the Java process names."""

SENSITIVE = ("/config/users", "/config/brokers", "/delegation_token/tokens")
"""Below these, nodes have secrets (Kafka: `ZkData.SensitiveRootPaths`)."""
OPEN = "/consumers"
"""Old consumers write below this node, and do not log in."""


@dataclass(frozen=True, slots=True)
class Login:
    """A user of ZooKeeper, by SASL's mechanism DIGEST-MD5."""

    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """The security settings of a session."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Returns the context of a new connection; None for connections without TLS."""
    login: Login | None = None
    set_acl: bool = False
    """True if the nodes that are made get access lists."""


PLAIN = Security()
"""No TLS, no login, no access lists."""


def is_restricted(path: str) -> bool:
    """Return whether a node gets an access list, by `ZkData.defaultAcls`."""
    return path != OPEN


def is_sensitive(path: str) -> bool:
    """Return whether a node may be read only by those who may change it."""
    return path.startswith(SENSITIVE)
