"""The transactions of a broker: its coordinator, markers and checks, put together over logs and registry."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import NamedTuple

from broker.cluster_links import Connect
from broker.controller.topics import TopicController
from broker.coordinator.partition_count import ReadCount
from broker.coordinator.state_log import StateLog
from broker.coordinator.state_topic import transaction_state_topic
from broker.coordinator.transaction.admission import Admission, Answered
from broker.coordinator.transaction.completion import IsAbsent
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer
from broker.coordinator.transaction.marker_router import MarkerRouter
from broker.coordinator.transaction.markers import Marker, MarkerWriter
from broker.coordinator.transaction.settings import TransactionSettings
from broker.coordinator.transaction.verification import Verifier
from broker.metadata.cache import MetadataCache
from broker.replica.acknowledging.appended import Appended
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Partition
from kafkalog.storage.topics import TRANSACTION_STATE

Verified = Mapping[Producer, Answered]
"""The answers of other brokers about the batches of one request, by producer."""


class ClusterAccess(NamedTuple):
    """The parts of a member by which its transactions reach other brokers and ZooKeeper."""

    cache: MetadataCache
    """Finds leaders and coordinators."""
    connect: Connect
    """Makes a link to a broker."""
    markers_version: int
    """The newest version of WriteTxnMarkers to send (by `inter.broker.protocol.version`)."""
    read_count: ReadCount
    """Reads how many partitions a topic has."""
    is_absent: IsAbsent
    """Asks ZooKeeper whether a partition was deleted."""


class Transactions:
    """The transactions of a broker. Call `start` once partitions are hosted, and `stop` before their logs are closed.

    Args:
        replicas: the broker's partitions.
        topics: creates the topic of the state.
        allocate_producer_id: returns a fresh producer id.
        reserve_producer_ids: see to it that neither an id nor a smaller one is given again.
        on_offsets: called with markers in partitions of `__consumer_offsets`.
        now_ms: the wall clock.
        cluster: how other brokers are reached; None for a lone broker.

    Attributes:
        coordinator: for the requests of producers.
        markers: writes the end of a transaction into a partition.
        admission: checks transactional appends.
    """

    def __init__(
        self,
        *,
        replicas: ReplicaManager,
        topics: TopicController,
        allocate_producer_id: Callable[[], Awaitable[int]],
        reserve_producer_ids: Callable[[int], Awaitable[None]],
        on_offsets: Callable[[Marker, Appended], None],
        now_ms: Callable[[], int],
        cluster: ClusterAccess | None = None,
    ) -> None:
        def is_known(topic: str, index: int) -> bool:
            state = topics.state(topic)
            return state is not None and index < len(state.partitions)

        async def is_absent(topic: str, index: int) -> bool:
            # A lone broker knows all partitions that there are. A member of a cluster knows what it was told.
            return True if cluster is None else await cluster.is_absent(topic, index)

        self.markers = MarkerWriter(replicas, now_ms, on_offsets)
        self.log = StateLog(
            lambda: transaction_state_topic(replicas.config, topics.replica_limit),
            replicas=replicas,
            topics=topics,
            now_ms=now_ms,
            read_count=None if cluster is None else cluster.read_count,
        )
        self._router: MarkerRouter | None = None
        self._verifier: Verifier | None = None
        if cluster is not None:

            def leads(topic: str, index: int) -> bool:
                partition = replicas.get(topic, index)
                return partition is not None and partition.is_leader

            self._router = MarkerRouter(
                self.markers.write, leads, cluster.cache, cluster.connect, cluster.markers_version
            )
            self._verifier = Verifier(self.log.partition_for, cluster.cache, cluster.connect)
        self.coordinator = TransactionCoordinator(
            log=self.log,
            write_marker=self.markers.write if self._router is None else self._router.write,
            is_known=is_known,
            is_absent=is_absent,
            allocate_producer_id=allocate_producer_id,
            reserve_producer_ids=reserve_producer_ids,
            settings=lambda: TransactionSettings.of(replicas.config),
            now_ms=now_ms,
        )
        self.admission = Admission(
            self.coordinator,
            lambda: bool(replicas.config["transaction.partition.verification.enable"]),
            self._verifier,
        )
        self.markers.on_marker = self.admission.marked
        replicas.on_role_changed.append(self._role_changed)

    def _role_changed(self, partition: Partition) -> None:
        if partition.topic == TRANSACTION_STATE:
            self.coordinator.role_changed(partition.index)

    def start(self) -> None:
        """Load the stored transactions, and complete those that were decided."""
        self.coordinator.start()

    async def stop(self) -> None:
        """Cancel the work that is under way; the next start takes it up again."""
        await self.coordinator.stop()
        if self._router is not None:
            await self._router.close()
        if self._verifier is not None:
            await self._verifier.close()
        await self.log.settle()

    async def ready(self) -> int:
        """Create `__transaction_state` if it does not exist; return its number of partitions.

        Raises:
            CoordinatorNotAvailableError: it cannot be made.
        """
        return await self.coordinator.ensure()

    def partition_for(self, transactional_id: str) -> int:
        """Return the partition of `__transaction_state` whose leader coordinates a transactional id.

        Raises:
            CoordinatorNotAvailableError: there is no such topic yet; see `ready`.
        """
        return self.coordinator.partition_for(transactional_id)

    @asynccontextmanager
    async def verified(
        self, transactional_id: str | None, batches: Iterable[tuple[int, int, Partition]]
    ) -> AsyncIterator[Verified]:
        """Ask other brokers what `admit` has to know; their answers, for `admit`, hold in the body.

        Args:
            transactional_id: the transactional id of the request.
            batches: producer id, producer epoch and partition of each batch for which `must_ask` is true.
        """
        asked: dict[Producer, list[Partition]] = {}
        for producer_id, producer_epoch, partition in batches:
            asked.setdefault(Producer(producer_id, producer_epoch), []).append(partition)
        answers: dict[Producer, Answered] = {}
        async with AsyncExitStack() as stack:
            for producer, partitions in asked.items():
                assert transactional_id is not None
                ahead = self.admission.ahead(transactional_id, producer, partitions)
                answers[producer] = await stack.enter_async_context(ahead)
            yield answers

    @property
    def asks_others(self) -> bool:
        """Return whether there are other brokers that coordinate transactions."""
        return self._verifier is not None

    def must_ask(self, transactional_id: str, producer_id: int, producer_epoch: int, partition: Partition) -> bool:
        """Return whether another broker has to be asked before `admit` (`verified`)."""
        return self.admission.must_ask(transactional_id, Producer(producer_id, producer_epoch), partition)

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: Partition,
        verified: Verified | None = None,
        *,
        abortable: bool,
    ) -> None:
        """Let a transactional batch pass, in the turn of the loop in which it is appended; see `Admission.check`.

        Args:
            verified: what `verified` gave the request, if other brokers had to be asked.
        """
        producer = Producer(producer_id, producer_epoch)
        answered = verified.get(producer) if verified else None
        self.admission.check(transactional_id, producer, partition, answered, abortable=abortable)
