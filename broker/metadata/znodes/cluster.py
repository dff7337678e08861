"""`/cluster/id`, `/feature` and `/latest_producer_id_block`: what belongs to the cluster as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import integer, read, text, write

ID_VERSION = "1"
"""Text, unlike the versions of all other nodes."""
BLOCK_VERSION = 1
FEATURE_VERSIONS = (1, 2)


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The producer ids that were last given to a broker. `last` is the largest of them."""

    broker_id: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class FeatureNode:
    """The finalized features of the cluster (KIP-584)."""

    version: int
    """1, or 2 since 3.3, without the smallest level of each feature."""
    enabled: bool
    """False where `inter.broker.protocol.version` is below 2.7."""
    features: Mapping[str, int]
    """The level of each feature."""


def encode_id(cluster_id: str) -> bytes:
    """Return the data of the node with the cluster's id."""
    return write({"version": ID_VERSION, "id": cluster_id})


def decode_id(data: bytes) -> str:
    """Return the cluster's id.

    Raises:
        ZnodeError: The data cannot be read.
    """
    return read(paths.CLUSTER_ID, data, lambda found: text(found["id"]))


def encode_block(block: ProducerIdBlock) -> bytes:
    """Return the data of the node with the last block of producer ids."""
    return write(
        {
            "version": BLOCK_VERSION,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_block(data: bytes) -> ProducerIdBlock:
    """Return the last block of producer ids.

    Raises:
        ZnodeError: The data cannot be read.
    """

    def take(found: dict[str, Any]) -> ProducerIdBlock:
        return ProducerIdBlock(integer(found["broker"]), int(text(found["block_start"])), int(text(found["block_end"])))

    return read(paths.PRODUCER_ID_BLOCK, data, take)


def encode_feature(node: FeatureNode) -> bytes:
    """Return the data of the node with the features."""
    names = ("max_version_level", "min_version_level") if node.version == 1 else ("max_version_level",)
    features = {feature: dict.fromkeys(names, level) for feature, level in node.features.items()}
    return write({"version": node.version, "status": int(node.enabled), "features": features})


def decode_feature(data: bytes) -> FeatureNode:
    """Return the finalized features.

    Raises:
        ZnodeError: The data cannot be read.
    """

    def take(found: dict[str, Any]) -> FeatureNode:
        version, status = integer(found["version"]), integer(found["status"])
        if version not in FEATURE_VERSIONS or status not in (0, 1):
            raise ValueError(f"version {version} with status {status} is not known")
        levels = {name: integer(each["max_version_level"]) for name, each in found["features"].items()}
        return FeatureNode(version, bool(status), levels)

    return read(paths.FEATURE, data, take)
