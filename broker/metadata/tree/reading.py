"""Reads the configurations and quotas below `/config`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from broker.config.stored_topic import UNREADABLE
from broker.metadata.tree.entities import BROKERS, CLIENTS, IPS, TOPICS, USERS
from broker.metadata.tree.session import Session, each_of
from broker.metadata.znodes import paths
from broker.metadata.znodes.configs import decode
from broker.metadata.znodes.json_node import ZnodeError
from broker.zookeeper.interface import NoNodeError

logger = logging.getLogger(__name__)

ABSENT = -1
"""The version of a node that does not exist."""


@dataclass(frozen=True, slots=True)
class ConfigNode:
    """A node below `/config` as it was read."""

    content: dict[str, str] = field(default_factory=dict)
    """Empty if it does not exist, or cannot be understood; the configuration of a topic is UNREADABLE then."""
    version: int = ABSENT


async def read_node(session: Session, name: str) -> ConfigNode:
    """Read a node, such as `topics/words`. A damaged one is named in the broker's log.

    It counts as empty. Only the configuration of a topic is UNREADABLE then, because the defaults could remove records.

    Raises:
        OSError: there was no connection for too long.
    """
    path = f"{paths.CONFIGS}/{name}"
    node = await session.read(partial(session.zookeeper.get, path))
    if node is None:
        return ConfigNode()
    try:
        return ConfigNode(decode(path, node.data), node.stat.version)
    except ZnodeError as error:
        if name.startswith(f"{TOPICS}/"):
            return ConfigNode({UNREADABLE: str(error)}, node.stat.version)
        logger.error("%s. It counts as empty", error)
        return ConfigNode({}, node.stat.version)


async def read_nodes(session: Session, names: Iterable[str]) -> dict[str, ConfigNode]:
    """Read several nodes; see `read_node`."""
    wanted = list(names)
    return dict(zip(wanted, await each_of(wanted, partial(read_node, session)), strict=True))


async def read_all(session: Session) -> dict[str, ConfigNode]:
    """Read the configurations of all topics, brokers, users, clients and addresses.

    Raises:
        OSError: there was no connection for too long.
    """
    return await read_nodes(session, await node_names(session))


async def node_names(session: Session) -> list[str]:
    """Return the names of all nodes below `/config` that have configurations, such as `topics/words`.

    Raises:
        OSError: there was no connection for too long.
    """
    found: list[str] = []
    for kind in (TOPICS, BROKERS, CLIENTS, IPS, USERS):
        names = [f"{kind}/{name}" for name in await _children(session, kind)]
        found += names
        if kind == USERS:
            parents = [f"{name}/{CLIENTS}" for name in names]
            below = await each_of(parents, partial(_children, session))
            found += [f"{parent}/{name}" for parent, children in zip(parents, below, strict=True) for name in children]
    return found


async def _children(session: Session, name: str) -> list[str]:
    try:
        return await session.read(partial(session.zookeeper.children, f"{paths.CONFIGS}/{name}"))
    except NoNodeError:
        return []
