"""A broker that is a member of a cluster over ZooKeeper.

At its start it opens a session, and finds or makes the cluster's id and its own. It loads its logs, binds its listeners
and registers. Then the controller tells it which partitions it has, and in which roles; until then it has none.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from broker.cluster_links import Connect
from broker.config.definition import ConfigError
from broker.config.listeners import Endpoint
from broker.config.protocol_version import Feature
from broker.config.server import BrokerConfig
from broker.config.stored_topic import read_topic_config
from broker.controller.cluster.controller import Balancing, ClusterController
from broker.controller.cluster.kraft import KraftMigrationError, check_not_migrating
from broker.controller.cluster.machine.partitions import UNCLEAN_KEY
from broker.controller.cluster.model.context import Settings
from broker.controller.configs import effective_config
from broker.log.log_manager import LogManager
from broker.member.identity import cluster_id, generate_broker_id, make_top_nodes
from broker.member.member import ClusterMember
from broker.metadata.cache import MetadataCache
from broker.metadata.local import FILE_NAME
from broker.metadata.model import NO_TOPIC_ID, BrokerRegistration, ClusterState, PartitionCount, TopicState
from broker.metadata.operations import ConfigResource, Operation, SetConfig
from broker.metadata.tree.session import Session
from broker.metadata.tree.store import ZooKeeperStore
from broker.metadata.znodes import move, paths
from broker.modes.broker_id import NO_ID, known_broker_id
from broker.modes.zookeeper_session import open_session
from broker.net.sockets.network import Dialer
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from broker.zookeeper.interface import ZooKeeper
from kafkalog.storage import names

logger = logging.getLogger(__name__)


class ClusterMode:
    """The mode of a member of a cluster; `Mode` describes the methods.

    Args:
        config: the configuration of the broker's file.
        runtime: what the broker is given from outside.
        logs: its logs.
        dialer: opens connections to other brokers.
    """

    def __init__(self, config: BrokerConfig, runtime: Runtime, logs: LogManager, dialer: Dialer | None = None) -> None:
        self._dialer = dialer
        self._config = config
        self._runtime = runtime
        self._logs = logs
        self.broker_id = NO_ID
        self._session: ZooKeeper | None = None
        self._store: ZooKeeperStore | None = None
        self._member: ClusterMember | None = None
        self._controller: ClusterController | None = None

    @property
    def store(self) -> ZooKeeperStore:
        """See `Mode.store`."""
        assert self._store is not None
        return self._store

    @property
    def member(self) -> ClusterMember:
        """The membership in the cluster. Available after `join`."""
        assert self._member is not None
        return self._member

    async def open(self) -> ClusterState:
        """See `Mode.open`."""
        config, runtime = self._config, self._runtime
        session = self._session = await open_session(config, runtime.open_zookeeper)
        patience_s: float = config["zookeeper.session.timeout.ms"] / 1000
        # Each step can be repeated: it reads, or makes what is missing.
        steps = Session(session, runtime.loop, patience_s=patience_s)
        await steps.read(lambda: self._check_not_moving(session))
        await steps.read(lambda: _check_not_migrating(session))
        await steps.read(lambda: make_top_nodes(session))
        found = await steps.read(lambda: cluster_id(session, runtime.random))
        self.broker_id = await steps.read(lambda: self._resolve_broker_id(session))
        self._logs.claim(found, self.broker_id)
        self._store = ZooKeeperStore(
            session,
            broker_id=self.broker_id,
            cluster_id=found,
            loop=runtime.loop,
            now_ms=runtime.now_ms,
            patience_s=patience_s,
            with_topic_ids=config.protocol_version.has(Feature.TOPIC_IDS),
            with_acls=config.has_authorizer,
            with_tokens=config.token_secret is not None,
        )
        state = await self._store.start()
        logger.info("broker %d belongs to the cluster %s", self.broker_id, found)
        return replace(state, topics=self._found_topics())

    async def loaded(self) -> ClusterState:
        """See `Mode.loaded`."""
        return self.store.state

    def topic_config(self, name: str) -> Mapping[str, str] | None:
        """Return a topic's configuration, which may be read before the controller has told of the topic."""
        return self.store.topic_config(name) if self.store.has_topic_config(name) else None

    def join(self, replicas: ReplicaManager, cache: MetadataCache, applier: ReplicaApplier) -> ClusterMember:
        """See `Mode.join`."""
        assert self._session is not None
        self._member = ClusterMember(
            self._config, self._runtime, self.broker_id, self._session, self.store, replicas, applier, self._dialer
        )
        cache.doubted = self._member.fetchers.doubted
        self._controller = self._make_controller(self._session, self._member.links.connect)
        return self._member

    @property
    def controller(self) -> ClusterController:
        """See `Mode.controller`."""
        assert self._controller is not None
        return self._controller

    async def host(self, applier: ReplicaApplier) -> None:
        """Do nothing: the controller gives roles once the broker is registered."""

    async def register(self, endpoints: tuple[Endpoint, ...]) -> None:
        """See `Mode.register`."""
        await self.member.register(endpoints)
        self.controller.start()
        self.member.on_registered.append(self.controller.registered)

    async def partition_counts(self, topics: Iterable[str]) -> dict[str, PartitionCount]:
        """Read from ZooKeeper how many partitions topics have."""
        counts = {name: await self.member.partition_counts.read(name) for name in topics}
        return {name: count for name, count in counts.items() if count is not None}

    @property
    def registration(self) -> BrokerRegistration:
        """See `Mode.registration`."""
        return self.member.broker

    def drop(self, path: Path) -> None:
        """Do nothing: the metadata is not kept in log directories."""

    def directory_failed(self) -> None:
        """Tell the controller, which asks for the replicas of this broker then."""
        if self._member is not None:
            self._member.directory_failed()

    async def leave(self) -> None:
        """Have the controller move this broker's leaderships."""
        await self.member.leave()
        if self.member.epoch() < 0:
            # A controller without a session decides nothing, and requests that wait for it would hold the stop up.
            await self.controller.stop()

    async def stop(self) -> None:
        """See `Mode.stop`."""
        await self.controller.stop()
        await self.member.stop()

    async def close(self) -> None:
        """End the session: the cluster learns at once that the broker is gone."""
        if self._controller is not None:
            await self._controller.stop()
        if self._store is not None:
            await self._store.stop()
        if self._member is not None:
            await self._member.close()
        elif self._session is not None:
            await self._session.close()

    # Inside

    def _make_controller(self, session: ZooKeeper, connect: Connect) -> ClusterController:
        config, store = self._config, self.store
        settings = Settings(
            broker_id=self.broker_id,
            protocol=config.protocol_version,
            inter_broker_listener=config.inter_broker_listener,
            delete_topics=config["delete.topic.enable"],
            unclean_election=effective_config(config, store.state, self.broker_id)[UNCLEAN_KEY],
            log_ends_timeout_s=config["kafkalog.unclean.recovery.timeout.ms"] / 1000,
            imbalance_percentage=config["leader.imbalance.per.broker.percentage"],
        )
        balancing = Balancing(config["auto.leader.rebalance.enable"], config["leader.imbalance.check.interval.seconds"])
        timeout_s = config["controller.socket.timeout.ms"] / 1000
        controller = ClusterController(settings, session, connect, self._runtime, balancing, timeout_s)

        def changed(state: ClusterState, operations: Sequence[Operation]) -> None:
            """Have elections tried again where unclean ones are allowed now."""
            configs = [each for each in operations if isinstance(each, SetConfig)]
            topics = [each.name for each in configs if each.resource is ConfigResource.TOPIC]
            allowed = [name for name in topics if read_topic_config(store.topic_config(name)).values.get(UNCLEAN_KEY)]
            if allowed:
                controller.unclean_election_enabled(allowed)
            if any(each.resource is ConfigResource.BROKER for each in configs):
                before = settings.unclean_election
                settings.unclean_election = effective_config(config, state, self.broker_id)[UNCLEAN_KEY]
                if settings.unclean_election and not before:
                    controller.unclean_election_enabled(None)

        store.subscribe(changed)
        return controller

    async def _check_not_moving(self, session: ZooKeeper) -> None:
        """Refuse to start a lone broker as a member, and on the nodes of a move that was cut short.

        Raises:
            ConfigError: the metadata has to be moved first.
        """
        alone = [str(each.path) for each in self._logs.online_dirs if (each.path / FILE_NAME).exists()]
        if alone:
            raise ConfigError(
                f"{FILE_NAME} is in {', '.join(alone)}: this broker is a cluster of its own, with topics that "
                "ZooKeeper does not know. Run kafkalog server join with the same configuration, or unset "
                "zookeeper.connect"
            )
        node = await session.get(paths.MOVE)
        if node is not None:
            raise ConfigError(
                f"zookeeper.connect: {move.decode(node.data)} is being moved into ZooKeeper or out of it, and is not "
                "moved whole: run its kafkalog server join, or leave, again"
            )

    async def _resolve_broker_id(self, session: ZooKeeper) -> int:
        """Return the configured id, or that of the log directories, or a new one.

        Raises:
            ConfigError: the configuration does not fit the log directories, or has no id.
        """
        config = self._config
        configured: int = config["broker.id"]
        generates, reserved = config["broker.id.generation.enable"], config["reserved.broker.max.id"]
        if generates and configured > reserved:
            raise ConfigError(f"broker.id {configured} must be at most reserved.broker.max.id, which is {reserved}")
        known = known_broker_id(configured, self._logs.stored_broker_id())
        if known is not None:
            return known
        if not generates:
            raise ConfigError("broker.id must be set where broker.id.generation.enable is false")
        return await generate_broker_id(session, reserved)

    def _found_topics(self) -> dict[str, TopicState]:
        """Return the topics of the logs that are here, with their configurations, for loading them."""
        found: set[str] = set()
        for directory in self._logs.online_dirs:
            for name in os.listdir(directory.path):
                key = names.parse_partition_dir(name)
                if key is not None:
                    found.add(key[0])
        return {name: TopicState(name, NO_TOPIC_ID, (), self.store.topic_config(name)) for name in found}


async def _check_not_migrating(session: ZooKeeper) -> None:
    """Refuse to start in a cluster that a KRaft controller migrates.

    Raises:
        ConfigError: the cluster cannot have this broker.
    """
    try:
        await check_not_migrating(session)
    except KraftMigrationError as error:
        raise ConfigError(f"zookeeper.connect: {error}") from None
