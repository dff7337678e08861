"""Recognizes a cluster that a KRaft controller migrates from ZooKeeper to KRaft (KIP-866)."""

from __future__ import annotations

from broker.metadata.znodes import controller, migration, paths
from broker.zookeeper.interface import ZooKeeper

_ADVICE = (
    "and this broker cannot take part in that. If the migration was taken back, delete the node /migration in "
    "ZooKeeper, and /controller if it is that of the KRaft controller, as Apache Kafka's documentation says"
)


class KraftMigrationError(Exception):
    """A KRaft controller migrates the cluster."""


async def check_not_migrating(zookeeper: ZooKeeper) -> None:
    """Check that no KRaft controller migrates the cluster, nor has migrated it.

    Raises:
        KraftMigrationError: One does, or did.
        ZnodeError: A node cannot be read.
    """
    found = await zookeeper.get(paths.MIGRATION)
    owner = migration.NOT_BEGUN if found is None else migration.decode(found.data)
    if owner != migration.NOT_BEGUN:
        raise KraftMigrationError(
            f"the node {paths.MIGRATION} says that KRaft controller {owner} migrates this cluster from ZooKeeper to "
            f"KRaft, {_ADVICE}"
        )
    present = await zookeeper.get(paths.CONTROLLER)
    if present is not None:
        check_controller(present.data)


def check_controller(data: bytes) -> None:
    """Check that the content of `/controller` is not of a KRaft controller.

    Raises:
        KraftMigrationError: It is.
        ZnodeError: The data cannot be read.
    """
    if controller.is_kraft(data):
        raise KraftMigrationError(
            f"the node {paths.CONTROLLER} says that KRaft controller {controller.decode(data)} migrates this cluster "
            f"from ZooKeeper to KRaft, {_ADVICE}"
        )
