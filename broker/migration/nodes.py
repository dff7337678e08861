"""Reads, writes and removes many nodes in ZooKeeper: hundreds in one request, for thousands of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from broker.controller.cluster.session import packs
from broker.metadata.tree.acls import read_acls
from broker.metadata.tree.reading import node_names
from broker.metadata.tree.session import Session, each_of
from broker.metadata.tree.writing import next_producer_id
from broker.metadata.znodes import acls, cluster, configs, controller, move, paths
from broker.metadata.znodes.move import Move
from broker.metadata.znodes.topics import StateNode, TopicNode, decode_state, decode_topic
from broker.migration.tree import Cluster
from broker.zookeeper.interface import Create, Delete, Node, NoNodeError, Operation, SetData, ZooKeeper

CLUSTER_WIDE = (
    paths.TOPICS,
    f"{paths.CONFIGS}/topics",
    f"{paths.CONFIGS}/brokers",
    f"{paths.CONFIGS}/clients",
    f"{paths.CONFIGS}/users",
    f"{paths.CONFIGS}/ips",
    *acls.ROOTS.values(),
)
"""Nodes whose descendants are what a registry has."""
OF_CONTROLLERS = (paths.CONFIG_CHANGES, paths.ISR_CHANGES, paths.LOG_DIR_EVENTS, *acls.CHANGES.values())
"""Nodes whose children only tell of changes."""
ORDERS = (paths.REASSIGN_PARTITIONS, paths.PREFERRED_ELECTION, paths.FEATURE, paths.PRODUCER_ID_BLOCK)
"""Nodes that a cluster has for itself, beside `/controller_epoch`."""


async def children(zookeeper: ZooKeeper, path: str) -> list[str]:
    """Return the names of a node's children; none if it does not exist."""
    try:
        return await zookeeper.children(path)
    except NoNodeError:
        return []


async def descendants(zookeeper: ZooKeeper, path: str) -> list[str]:
    """Return the paths of all nodes below one, parents before their children."""
    found: list[str] = []
    level = [path]
    while level:
        below = await each_of(level, lambda each: children(zookeeper, each))
        level = [f"{parent}/{name}" for parent, names in zip(level, below, strict=True) for name in names]
        found += level
    return found


async def cluster_id(zookeeper: ZooKeeper) -> str | None:
    """Return the id of the cluster; None if there is none.

    Raises:
        ZnodeError: the node cannot be read.
    """
    node = await zookeeper.get(paths.CLUSTER_ID)
    return None if node is None else cluster.decode_id(node.data)


async def present_move(zookeeper: ZooKeeper) -> Move | None:
    """Return the move of metadata that is under way; None if there is none.

    Raises:
        ZnodeError: the node cannot be read.
    """
    node = await zookeeper.get(paths.MOVE)
    return None if node is None else move.decode(node.data)


async def registered(zookeeper: ZooKeeper) -> list[int]:
    """Return the ids of the brokers that are registered."""
    return sorted(int(name) for name in await children(zookeeper, paths.BROKER_IDS) if name.isdigit())


async def contents(session: Session) -> dict[str, dict[str, str]]:
    """Return all configurations, by the names of their nodes below `/config`.

    Raises:
        ZnodeError: one of them cannot be read.
    """
    names = await node_names(session)
    found = await each_of(names, lambda name: session.zookeeper.get(f"{paths.CONFIGS}/{name}"))
    return {
        name: configs.decode(f"{paths.CONFIGS}/{name}", node.data)
        for name, node in zip(names, found, strict=True)
        if node is not None
    }


async def read_cluster(session: Session, found_id: str) -> Cluster:
    """Read what the nodes of a cluster say.

    Raises:
        ZnodeError: one of them cannot be read.
    """
    zookeeper = session.zookeeper
    epoch = await zookeeper.get(paths.CONTROLLER_EPOCH)
    names = await children(zookeeper, paths.TOPICS)
    read = await each_of(names, lambda name: zookeeper.get(paths.topic(name)))
    topics = {name: decode_topic(name, node.data) for name, node in zip(names, read, strict=True) if node is not None}
    return Cluster(
        found_id,
        0 if epoch is None else controller.decode_epoch(epoch.data),
        topics,
        await _states(zookeeper, topics),
        await contents(session),
        await next_producer_id(session),
        await read_acls(session),
        frozenset(await children(zookeeper, paths.DELETE_TOPICS)),
    )


async def _states(zookeeper: ZooKeeper, topics: Mapping[str, TopicNode]) -> dict[tuple[str, int], StateNode]:
    keys = [(name, index) for name, topic in topics.items() for index in topic.partitions]

    async def read(key: tuple[str, int]) -> Node | None:
        return await zookeeper.get(paths.partition_state(*key))

    found = await each_of(keys, read)
    return {
        key: decode_state(*key, node.data, node.stat.version)
        for key, node in zip(keys, found, strict=True)
        if node is not None
    }


async def carry_out(zookeeper: ZooKeeper, operations: Iterable[Operation]) -> None:
    """Carry out operations in their order, in as few requests as ZooKeeper takes."""
    groups: list[Sequence[Operation]] = [[each] for each in operations]
    for pack in packs(groups):
        await zookeeper.multi([operation for group in pack for operation in group])


async def make_equal(zookeeper: ZooKeeper, wanted: Mapping[str, bytes]) -> None:
    """Write the nodes `wanted`, parents first; remove others of topics, configurations, quotas and ACLs.

    What is not a quota in the node of a user stays there.
    """
    below = await each_of(CLUSTER_WIDE, lambda path: descendants(zookeeper, path))
    present = {path for paths_below in below for path in paths_below}
    single = [path for path in wanted if path not in present]
    looked = await each_of(single, zookeeper.get)
    present |= {path for path, node in zip(single, looked, strict=True) if node is not None}
    await remove(zookeeper, [path for path in present if path not in wanted])
    await carry_out(
        zookeeper,
        [SetData(path, data) if path in present else Create(path, data) for path, data in wanted.items()],
    )


async def remove(zookeeper: ZooKeeper, unwanted: Iterable[str]) -> None:
    """Remove nodes, children before their parents."""
    deepest_first = sorted(unwanted, key=lambda path: -path.count("/"))
    await carry_out(zookeeper, [Delete(path) for path in deepest_first])
