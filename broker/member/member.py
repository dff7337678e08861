"""A broker as a member of a cluster: its registration, what the controller sends it, its followers and its ISRs.

Which partitions it has, and in which roles, comes from the controller alone. A member that is not registered any more
gives up all roles before it registers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable

from broker.cluster_links import ClusterLinks
from broker.config.listeners import Endpoint
from broker.config.protocol_version import Feature, ProtocolVersion
from broker.config.server import BrokerConfig
from broker.member.control.control import Control, PublishedStore
from broker.member.group_offsets import GroupOffsetNodes
from broker.member.isr.alter_isr import AlterIsr
from broker.member.isr.isr_nodes import IsrNodes
from broker.member.leaving import leave
from broker.member.partition_counts import PartitionCounts
from broker.member.reconciliation.reconciliation import Reconciliation
from broker.member.registration import Registration
from broker.metadata.model import BrokerRegistration, TopicState
from broker.metadata.znodes import brokers, notices, paths
from broker.net.sockets.network import Dialer
from broker.replica.fetching.fetchers import FollowerFetchers
from broker.replica.hosting.applier import ReplicaApplier
from broker.replica.isr.keeper import IsrKeeper
from broker.replica.manager import ReplicaManager
from broker.runtime import Runtime
from broker.zookeeper.interface import ZooKeeper, ZooKeeperError

logger = logging.getLogger(__name__)

CHECKED_AT_ONCE = 100
"""Partitions whose ISR is checked before other work of the loop has its turn."""
MIN_CHECK_S = 0.05
RETRY_S = 0.5
HOSTED_AGAIN = "replicas that it could not host can be used again"
"""The reason of the notice after retries. Without it the controller elects none of these replicas."""


class ClusterMember:
    """A broker as a member of a cluster. Used on the event loop's thread only.

    Args:
        config: the configuration of the broker's file.
        runtime: what the broker is given from outside.
        broker_id: its id.
        zookeeper: its session.
        store: the cluster's metadata.
        replicas: its partitions.
        applier: gives them their roles.

    Attributes:
        links: make links to the other brokers.
        control: carries out the controller's requests.
        fetchers: fetch what other brokers lead.
        isr: keeps the ISRs of what this broker leads.
        roles: compares the roles of this broker with ZooKeeper.
        group_offsets: the offsets of groups in ZooKeeper.
        partition_counts: reads how many partitions topics have.
        on_gone: called when the cluster may have taken this broker for dead, after it has given up its roles.
        on_registered: called when the broker is registered, the first time and again.
    """

    def __init__(
        self,
        config: BrokerConfig,
        runtime: Runtime,
        broker_id: int,
        zookeeper: ZooKeeper,
        store: PublishedStore,
        replicas: ReplicaManager,
        applier: ReplicaApplier,
        dialer: Dialer | None = None,
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._broker_id = broker_id
        self._store = store
        self._replicas = replicas
        self.zookeeper = zookeeper
        self.links = ClusterLinks(runtime, broker_id, config, dialer)
        self.control = Control(store, replicas, applier, self._epoch, self._brokers_changed)
        self.fetchers = FollowerFetchers(replicas, self.links.connect, lambda: store.state.brokers, self._epoch)
        self._isr_store = self._make_isr_store()
        self.isr = IsrKeeper(replicas, self._isr_store)
        self.roles = Reconciliation(
            broker_id,
            self._epoch,
            zookeeper,
            self.control,
            store,
            replicas,
            self.isr,
            interval_s=config["kafkalog.role.check.interval.ms"] / 1000,
            retention_ms=config["kafkalog.log.stray.retention.ms"],
        )
        session_s: float = config["zookeeper.session.timeout.ms"] / 1000
        self.group_offsets = GroupOffsetNodes(zookeeper, runtime.loop, session_s)
        self.partition_counts = PartitionCounts(zookeeper, runtime.loop, session_s)
        self.on_gone: list[Callable[[], None]] = []
        self.on_registered: list[Callable[[], None]] = []
        self._registration: Registration | None = None
        self._unregistered = asyncio.Event()
        """Set while this broker has been registered and is no more."""
        self._checking: asyncio.Task[None] | None = None
        self._telling: set[asyncio.Task[None]] = set()
        replicas.alive = frozenset(store.state.brokers)
        replicas.retries.on_ended = lambda: self._tell(HOSTED_AGAIN)

    def _make_isr_store(self) -> AlterIsr | IsrNodes:
        if self._config.protocol_version.has(Feature.ALTER_PARTITION):
            return AlterIsr(
                self._runtime, self._broker_id, self._epoch, self.controller, self.links.connect, self.zookeeper
            )
        return IsrNodes(self._runtime, self._broker_id, self.zookeeper)

    @property
    def broker_id(self) -> int:
        """The id of this broker."""
        return self._broker_id

    def epoch(self) -> int:
        """Return the epoch of this broker, or -1 while it is not registered."""
        return self._epoch()

    def check_topic(self, topic: TopicState) -> None:
        """Refuse a new topic that ZooKeeper would not take.

        Raises:
            PolicyViolationError: one of its nodes would be too large.
        """
        self._store.check_topic(topic)

    async def missing_topics(self, names: Iterable[str]) -> set[str]:
        """Return those of the topics that ZooKeeper does not have.

        Raises:
            ZooKeeperError: ZooKeeper does not answer.
        """
        return await self._store.missing_topics(names)

    @property
    def broker(self) -> BrokerRegistration:
        """The registration of this broker."""
        assert self._registration is not None
        return self._registration.broker

    @property
    def listeners(self) -> frozenset[str]:
        """The names of the listeners on which other brokers may send requests."""
        return self._config.listeners_between

    def controller(self) -> BrokerRegistration | None:
        """Return the controller, or None while it is not known."""
        state = self._store.state
        return state.brokers.get(state.controller_id)

    async def register(self, endpoints: tuple[Endpoint, ...]) -> None:
        """Register the broker with its advertised endpoints, and keep it registered.

        Raises:
            ConfigError: another broker has this id, or one of these addresses.
            ZooKeeperError: ZooKeeper refuses.
        """
        runtime, rack = self._runtime, self._config["broker.rack"]
        broker = BrokerRegistration(self._broker_id, endpoints, rack, watches_itself=True)
        version = _node_version(self._config.protocol_version)
        registration = self._registration = Registration(
            self.zookeeper,
            runtime.loop,
            broker,
            lambda: brokers.encode(broker, runtime.now_ms(), version),
            self._gone,
            self._registered,
            self._config["zookeeper.session.timeout.ms"] / 1000,
            has_lease=self._config["kafkalog.leader.lease.enable"],
        )
        self._replicas.may_append = lambda: not registration.is_lapsed
        await registration.start()
        self._checking = runtime.loop.create_task(self._check_isrs())
        self.roles.start()

    def directory_failed(self) -> None:
        """Tell the controller that a log directory has failed: it asks for all roles then, and learns which cannot be.

        It is tried until ZooKeeper has the notice.
        """
        self._tell(None)

    def _tell(self, reason: str | None) -> None:
        """Have the controller ask for all roles; the reason is as for `encode_log_dir_event`."""
        task = self._runtime.loop.create_task(self._tell_until_noted(reason))
        self._telling.add(task)
        task.add_done_callback(self._telling.discard)

    async def _tell_until_noted(self, reason: str | None) -> None:
        data = notices.encode_log_dir_event(self._broker_id, reason)
        while True:
            try:
                await self.zookeeper.create(paths.LOG_DIR_EVENT_PREFIX, data, is_sequential=True)
            except ZooKeeperError as error:
                what = "a log directory has failed" if reason is None else reason
                logger.warning("The controller cannot be told yet that %s: %r", what, error)
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def leave(self) -> None:
        """Have the controller move this broker's leaderships, if it is configured so."""
        await self.roles.stop()
        self.fetchers.begin_leaving()
        if self._config["controlled.shutdown.enable"] and self._registration is not None and self._epoch() >= 0:
            await leave(self._config, self.broker, self.controller, self.links.connect, self._unregistered)
        if self._registration is not None:
            # A controller that finds nobody listening any more may delete the registration: it has to stay so.
            await self._registration.stop()

    async def stop(self) -> None:
        """Stop following, and keeping the ISRs; the registration stays until the session ends."""
        await self.roles.stop()
        if self._checking is not None:
            self._checking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._checking
        for task in list(self._telling):
            task.cancel()
        await asyncio.gather(*self._telling, return_exceptions=True)
        await self.fetchers.close()
        await self._isr_store.close()

    async def close(self) -> None:
        """End the session, and the registration with it."""
        if self._registration is not None:
            await self._registration.stop()
        await self.zookeeper.close()

    # Inside

    def _epoch(self) -> int:
        return -1 if self._registration is None else self._registration.epoch

    def _registered(self) -> None:
        self._unregistered.clear()
        self.control.registered()
        for each in self.on_registered:
            each()

    def _gone(self) -> None:
        logger.warning("The broker gives up its roles until the controller gives it new ones")
        self._replicas.resign()
        self._unregistered.set()
        for each in self.on_gone:
            each()

    def _brokers_changed(self) -> None:
        self._replicas.alive = frozenset(self._store.state.brokers)
        self.fetchers.brokers_changed()
        for partition in self._replicas.partitions():
            if partition.leading is None:
                continue
            # A broker that has died holds back neither the high watermark nor the deletion of records.
            if partition.advance_high_watermark():
                self._replicas.high_watermark_advanced(partition)
            self._replicas.deletion_purgatory.notify(partition.key)

    async def _check_isrs(self) -> None:
        while True:
            await asyncio.sleep(max(self._replicas.config["replica.lag.time.max.ms"] / 2000, MIN_CHECK_S))
            for number, partition in enumerate(self._replicas.partitions(), 1):
                try:
                    self.isr.check(partition)
                except Exception:
                    logger.exception("the ISR of %s-%d cannot be checked", *partition.key)
                if number % CHECKED_AT_ONCE == 0:
                    await asyncio.sleep(0)


def _node_version(version: ProtocolVersion) -> int:
    """Return the version of the registration's data that brokers of this version write."""
    if version.has(Feature.FEATURE_NODE):
        return 5
    return 4 if version >= ProtocolVersion.parse("0.10.0-IV1") else 2
