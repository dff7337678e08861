"""Connections to a cluster that belong to the object that uses them, or to another one."""

from __future__ import annotations

from kafkalog.client.closing import Closing
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig


class Connected(Closing):
    """Base of `Admin` and of its parts, which are also usable by themselves.

    Args:
        config: The client's configuration.
        cluster: Connections to use instead of opening others. They stay the caller's: `close` leaves them open.
    """

    def __init__(self, config: ClientConfig, *, cluster: Cluster | None = None) -> None:
        self._owns_cluster = cluster is None
        self.cluster = cluster or Cluster(config)

    def close(self) -> None:
        """Close all connections."""
        if self._owns_cluster:
            self.cluster.close()
