"""`/migration`, which a KRaft controller writes while it migrates a cluster from ZooKeeper to KRaft (KIP-866)."""

from __future__ import annotations

from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import integer, read

VERSION = 0
NOT_BEGUN = -1
"""The id of the KRaft controller before the first one takes the cluster over."""


def decode(data: bytes) -> int:
    """Return the id of the KRaft controller that migrates the cluster, or NOT_BEGUN.

    Raises:
        ZnodeError: The data cannot be read, or has another version.
    """

    def take(found: dict[str, object]) -> int:
        if integer(found["version"]) != VERSION:
            raise ValueError(f"version {found['version']} is not known")
        return integer(found["kraft_controller_id"])

    return read(paths.MIGRATION, data, take)
