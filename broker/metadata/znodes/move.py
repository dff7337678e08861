"""`/kafkalog/move`: says that the metadata of a broker is on its way into ZooKeeper, or out of it. A node of our own.

It is there from before the first change until after the last one. So an attempt that was cut short is recognized, and
no broker of ours starts on half of a cluster's nodes.
"""

from __future__ import annotations

from dataclasses import dataclass

from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import integer, read, text, write

VERSION = 1


@dataclass(frozen=True, slots=True)
class Move:
    """The broker whose metadata is moved, and the cluster that it makes up."""

    broker_id: int
    cluster_id: str

    def __str__(self) -> str:
        return f"broker {self.broker_id} of the cluster {self.cluster_id}"


def encode(move: Move) -> bytes:
    """Return the data of the node."""
    return write({"version": VERSION, "broker": move.broker_id, "cluster_id": move.cluster_id})


def decode(data: bytes) -> Move:
    """Return whose metadata is moved.

    Raises:
        ZnodeError: The data cannot be read.
    """
    return read(paths.MOVE, data, lambda found: Move(integer(found["broker"]), text(found["cluster_id"])))
