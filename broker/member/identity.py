"""The cluster's id, which the first broker makes, and a number for a broker that has none."""

from __future__ import annotations

import asyncio
import contextlib
import random

from broker.metadata.model import new_cluster_id
from broker.metadata.znodes import cluster, paths
from broker.zookeeper.interface import ANY_VERSION, NodeExistsError, ZooKeeper, ensure


async def make_top_nodes(zookeeper: ZooKeeper) -> None:
    """Make the nodes that each broker expects, where they are missing."""
    await asyncio.gather(*(ensure(zookeeper, path) for path in paths.PERSISTENT))


async def cluster_id(zookeeper: ZooKeeper, chance: random.Random) -> str:
    """Return the id of the cluster; make one if this is its first broker.

    Raises:
        ZnodeError: the node with the id cannot be read.
    """
    while True:
        node = await zookeeper.get(paths.CLUSTER_ID)
        if node is not None:
            return cluster.decode_id(node.data)
        await ensure(zookeeper, paths.CLUSTER_ID.rpartition("/")[0])
        with contextlib.suppress(NodeExistsError):
            await zookeeper.create(paths.CLUSTER_ID, cluster.encode_id(new_cluster_id(chance)))


async def generate_broker_id(zookeeper: ZooKeeper, reserved: int) -> int:
    """Return a number above `reserved` that no broker of the cluster was given before.

    The number is the version of a node, which counts its changes, as in Kafka.
    """
    await ensure(zookeeper, paths.BROKER_SEQUENCE)
    return reserved + (await zookeeper.set(paths.BROKER_SEQUENCE, b"", ANY_VERSION)).version
