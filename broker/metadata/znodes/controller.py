"""`/controller`, an ephemeral node that names the controller, and `/controller_epoch`, which counts its elections.

The epoch's node is decimal text. Each write of a controller checks the version of that node, so that a controller that
was replaced changes nothing.
"""

from __future__ import annotations

from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import ZnodeError, integer, read, write

VERSION = 2
NO_KRAFT_EPOCH = -1
"""No KRaft controller takes part in the election."""


def encode(broker_id: int, timestamp_ms: int) -> bytes:
    """Return the data of the node of a broker that becomes the controller."""
    return write(
        {
            "version": VERSION,
            "brokerid": broker_id,
            "timestamp": str(timestamp_ms),
            "kraftControllerEpoch": NO_KRAFT_EPOCH,
        }
    )


def decode(data: bytes) -> int:
    """Return the id of the controller.

    Raises:
        ZnodeError: The data cannot be read.
    """
    return read(paths.CONTROLLER, data, lambda found: integer(found["brokerid"]))


def is_kraft(data: bytes) -> bool:
    """Return whether the node is that of a KRaft controller, which migrates the cluster to KRaft (KIP-866).

    Raises:
        ZnodeError: The data cannot be read.
    """
    return read(paths.CONTROLLER, data, lambda found: integer(found.get("kraftControllerEpoch", NO_KRAFT_EPOCH)) >= 0)


def encode_epoch(epoch: int) -> bytes:
    """Return the data of the epoch's node."""
    return str(epoch).encode()


def decode_epoch(data: bytes) -> int:
    """Return the controller's epoch.

    Raises:
        ZnodeError: The data is not a number.
    """
    try:
        return int(data)
    except ValueError:
        raise ZnodeError(f"The node {paths.CONTROLLER_EPOCH} in ZooKeeper is not a number: {data[:99]!r}") from None
