"""The values of ZooKeeper as kazoo has them, and how a client of kazoo connects again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kazoo import exceptions
from kazoo.client import KazooClient, KazooState
from kazoo.retry import KazooRetry
from kazoo.security import ACL, CREATOR_ALL_ACL, READ_ACL_UNSAFE

from kafkalog.zookeeper.security import is_restricted, is_sensitive
from kafkalog.zookeeper.values import Check, Create, Delete, Operation, SessionState, SetData, Stat

RECONNECT_S = 0.1
"""The pause after the first failure to connect; later ones grow up to `RECONNECT_MOST_S`."""
RECONNECT_MOST_S = 1.0

STATES = {
    KazooState.CONNECTED: SessionState.CONNECTED,
    KazooState.SUSPENDED: SessionState.SUSPENDED,
    KazooState.LOST: SessionState.EXPIRED,
}


def reconnecting() -> KazooRetry:
    """Return the rule by which a client tries to connect again, without end."""
    return KazooRetry(max_tries=-1, delay=RECONNECT_S, max_delay=RECONNECT_MOST_S)


def session_id(client: KazooClient) -> int:
    """Return the present session, or 0 before the first one."""
    found = client.client_id
    return 0 if found is None else int(found[0])


def granted_timeout(client: KazooClient) -> float:
    """Return the time-out of the session of a client that `open_client` has opened, in seconds.

    It is the smaller of what ZooKeeper grants and what was asked for.
    """
    return float(client.handler.granted)


def stat_of(stat: Any) -> Stat:
    """Return what kazoo has read of a node."""
    return Stat(stat.version, stat.czxid, stat.mzxid, stat.ephemeralOwner, stat.ctime)


def access_list(path: str, *, set_acl: bool) -> list[ACL] | None:
    """Return the access list of a node that is created; None for one that is open to everybody."""
    if not set_acl or not is_restricted(path):
        return None
    return list(CREATOR_ALL_ACL) if is_sensitive(path) else [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]


def request_of(client: KazooClient, operations: Iterable[Operation], *, set_acl: bool = False) -> Any:
    """Return kazoo's request of operations that are carried out as one.

    Args:
        client: The client that sends it.
        operations: The operations.
        set_acl: Whether the nodes that are made get access lists.
    """
    request = client.transaction()
    for each in operations:
        match each:
            case Create():
                acl = access_list(each.path, set_acl=set_acl)
                request.create(each.path, each.data, acl, each.is_ephemeral, each.is_sequential)
            case SetData():
                request.set_data(each.path, each.data, each.version)
            case Delete():
                request.delete(each.path, each.version)
            case Check():
                request.check(each.path, each.version)
    return request


def failure_of(results: Iterable[Any]) -> tuple[int, Exception] | None:
    """Return the position and the error of the operation that failed; None if all were carried out."""
    for index, result in enumerate(results):
        # Others than the one that failed are rolled back, or were not tried.
        if isinstance(result, Exception) and not isinstance(
            result, exceptions.RolledBackError | exceptions.RuntimeInconsistency
        ):
            return index, result
    return None
