"""Find the brokers of a cluster in its ZooKeeper, as tools of Kafka 0.8 did."""

from __future__ import annotations

from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.session import ZooKeeperSession
from kafkalog.client.zookeeper.steps import ZooKeeperError
from kafkalog.zookeeper.security import PLAIN, Security

CONNECT_S = 15.0


def find_brokers(zookeeper: str, protocol: str = "PLAINTEXT", security: Security = PLAIN) -> str:
    """Return `bootstrap.servers` of the live brokers: their listeners with a security protocol.

    Args:
        zookeeper: The address of ZooKeeper.
        protocol: The security protocol of the brokers' listeners.
        security: What secures the session with ZooKeeper.

    Raises:
        ConnectionLossError, AccessDeniedError: As `ZooKeeperSession`.
        ZooKeeperError: No broker is registered there, none has such a listener, or one has no address.
    """
    with ZooKeeperSession(zookeeper, connect_timeout=CONNECT_S, security=security) as session:
        return in_session(session, protocol)


def in_session(session: ZooKeeperSession, protocol: str) -> str:
    """Do as `find_brokers` does, in a session that is open.

    Raises:
        ZooKeeperError: No broker is registered there, none has such a listener, or one has no address.
    """
    registrations = session.run(nodes.read_brokers())
    if not registrations:
        raise ZooKeeperError("no broker is registered in ZooKeeper (/brokers/ids)")
    found = nodes.bootstrap_servers(registrations, protocol)
    if not found:
        raise ZooKeeperError(f"no broker in ZooKeeper has a listener of security.protocol={protocol}")
    return found
