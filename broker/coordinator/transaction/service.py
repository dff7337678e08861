"""The transactions of a broker: its coordinator, markers and checks, put together over logs and registry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from broker.controller.topics import TopicController
from broker.coordinator.state_log import StateLog
from broker.coordinator.state_topic import transaction_state_topic
from broker.coordinator.transaction.admission import Admission
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer
from broker.coordinator.transaction.markers import Marker, MarkerWriter
from broker.coordinator.transaction.settings import TransactionSettings
from broker.replica.manager import ReplicaManager
from broker.replica.partition import Appended, Partition
from kafkalog.storage.topics import TRANSACTION_STATE


class Transactions:
    """See the module. `start` once partitions are hosted, `stop` before their logs are closed.

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
    ) -> None:
        def exists(topic: str, index: int) -> bool:
            state = topics.state(topic)
            return state is not None and index < len(state.partitions)

        self.markers = MarkerWriter(replicas, now_ms, on_offsets)
        self._log = StateLog(
            lambda: transaction_state_topic(replicas.config, len(topics.brokers)),
            replicas=replicas,
            topics=topics,
            now_ms=now_ms,
        )
        self.coordinator = TransactionCoordinator(
            log=self._log,
            write_marker=self.markers.write,
            exists=exists,
            allocate_producer_id=allocate_producer_id,
            reserve_producer_ids=reserve_producer_ids,
            settings=lambda: TransactionSettings.of(replicas.config),
            now_ms=now_ms,
        )
        self.admission = Admission(
            self.coordinator, lambda: bool(replicas.config["transaction.partition.verification.enable"])
        )
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
        await self._log.settle()

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

    def admit(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partition: Partition,
        *,
        abortable: bool,
    ) -> None:
        """Let a transactional batch pass, in the turn of the loop in which it is appended; see `Admission.check`."""
        self.admission.check(transactional_id, Producer(producer_id, producer_epoch), partition, abortable=abortable)
