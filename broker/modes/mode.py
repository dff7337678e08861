"""The interface of a mode: the steps of a broker's start and stop that differ, in the order of the calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

from broker.config.listeners import Endpoint
from broker.controller.cluster.controller import ClusterController
from broker.member.member import ClusterMember
from broker.metadata.cache import MetadataCache
from broker.metadata.model import BrokerRegistration, ClusterState, PartitionCount
from broker.metadata.store import MetadataStore
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.manager import ReplicaManager


class Mode(Protocol):
    """The steps of a broker's start and stop that depend on whether it is alone, in the order of the calls."""

    @property
    def broker_id(self) -> int:
        """The id of this broker. Available after `open`."""

    @property
    def store(self) -> MetadataStore:
        """The cluster's metadata. Available after `open`."""

    async def open(self) -> ClusterState:
        """Open the store; give the log directories to this broker and its cluster; return what is known of it.

        Raises:
            ConfigError, InconsistentClusterIdError, LogDirUnusableError, MetadataError, ZooKeeperError: the broker
                cannot be started.
        """

    async def loaded(self) -> ClusterState:
        """Go on after the logs were loaded, and return what is known of the cluster then."""

    def topic_config(self, name: str) -> Mapping[str, str] | None:
        """Return the overrides of a topic's configuration; None if they were never read. See `ReplicaApplier`."""

    def join(self, replicas: ReplicaManager, cache: MetadataCache, applier: ReplicaApplier) -> ClusterMember | None:
        """Make the membership in a cluster, which does not serve yet; return None for a lone broker."""

    @property
    def controller(self) -> ClusterController | None:
        """The candidate for the controller of the cluster, if there is one. Available after `join`."""

    async def host(self, applier: ReplicaApplier) -> None:
        """Give the partitions their roles, as far as they are known before the broker serves."""

    async def register(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register the broker as alive, with its advertised endpoints.

        Raises:
            ConfigError: another broker has the same id, or one of the addresses.
            ZooKeeperError: ZooKeeper refuses.
        """

    async def partition_counts(self, topics: Iterable[str]) -> dict[str, PartitionCount]:
        """Return the number of partitions of topics that the controller may not have announced yet.

        Raises:
            OSError: there was no connection to ZooKeeper for too long.
            ZooKeeperError: ZooKeeper refuses.
        """

    @property
    def registration(self) -> BrokerRegistration:
        """The registration of this broker. Available after `register`."""

    def drop(self, path: Path) -> None:
        """Stop using a log directory, because it has failed. Any thread may call this."""

    def directory_failed(self) -> None:
        """Tell the cluster that a log directory has failed. Called on the loop, once its partitions are offline."""

    async def leave(self) -> None:
        """Prepare the cluster for the stop of this broker, which still serves."""

    async def stop(self) -> None:
        """Stop the parts of `join`; the broker does not serve any more."""

    async def close(self) -> None:
        """End what `open` has opened. It may be called at any time after `open` began."""
