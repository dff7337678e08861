"""A log and partitions in memory; every write waits until the test decides its result."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker.coordinator.state_log import Shortage, StateBatch, StateRecord
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer
from broker.coordinator.transaction.markers import Marker
from broker.coordinator.transaction.settings import TransactionSettings
from broker.log.producer_state.producer_state_manager import ProducerStateManager
from kafkalog.protocol.errors import CoordinatorNotAvailableError, KafkaError, KafkaStorageError, RequestTimedOutError
from kafkalog.records.batch import Record


async def never_absent(topic: str, index: int) -> bool:
    """Say that no partition was deleted."""
    return False


def coordinator_of(log: SimulatedLog, producer_id: int, now_ms: int) -> TransactionCoordinator:
    """Make a coordinator that knows all partitions, and whose markers never arrive.

    New producers get `producer_id`.
    """

    async def allocate() -> int:
        return producer_id

    async def reserve(largest: int) -> None:
        """Do nothing."""

    return TransactionCoordinator(
        log=log,
        write_marker=lambda topic, index, marker: asyncio.get_running_loop().create_future(),
        is_known=lambda topic, index: True,
        is_absent=never_absent,
        allocate_producer_id=allocate,
        reserve_producer_ids=reserve,
        settings=TransactionSettings,
        now_ms=lambda: now_ms,
    )


class _Owner:
    """The owner of the partition of `__transaction_state`."""

    def __init__(self, leader_epoch: int, size: int) -> None:
        self.leader_epoch = self.led_since = leader_epoch
        self.log = self
        self.log_start_offset, self.log_end_offset = 0, size


@dataclass
class _Write:
    records: list[StateRecord]
    future: asyncio.Future[int]


class SimulatedLog:
    """One partition of `__transaction_state`. Its `records` outlive the coordinators that write them.

    Attributes:
        replicated: the high watermark: so many of the records have all in-sync replicas. The leader after this one may
            lack the others.
        short: what the ISR lacks.
    """

    partitions = 1
    limit = 1 << 20
    """The most bytes of a batch."""

    def __init__(self) -> None:
        self.records: list[StateRecord] = []
        self.replicated = 0
        self.short: Shortage | None = None
        self.waiting: deque[_Write] = deque()
        self._owner = _Owner(0, 0)
        self._until_replicated: list[tuple[int, Callable[[], object]]] = []

    def begin(self, leader_epoch: int) -> None:
        """Begin a new leader; open writes must be settled."""
        self._owner = _Owner(leader_epoch, len(self.records))
        self._until_replicated.clear()

    def raise_epoch(self) -> None:
        """Raise the leader epoch; the leader stays."""
        self._owner.leader_epoch += 1

    @property
    def unreplicated(self) -> int:
        """The number of records that the leader after this one may lack."""
        return len(self.records) - self.replicated

    def replicate(self) -> None:
        """Let the high watermark reach the end."""
        self.replicated = len(self.records)
        due = [then for end, then in self._until_replicated if end <= self.replicated]
        self._until_replicated = [each for each in self._until_replicated if each[0] > self.replicated]
        for then in due:
            then()

    async def ensure(self) -> int:
        return self.partitions

    def partition_for(self, key: str) -> int:
        return 0

    def leads(self, index: int) -> _Owner:
        return self._owner

    async def replay(self, index: int, apply: Callable[[list[StateBatch]], None]) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        for offset, record in enumerate(list(self.records)):
            stored = [Record(offset, 0, record.key, record.value)]
            apply([StateBatch(offset, offset, -1, -1, False, None, stored)])
            yield

    def when_end_is_replicated(self, index: int, then: Callable[[], None]) -> None:
        if self.unreplicated:
            loop = asyncio.get_running_loop()
            self._until_replicated.append((len(self.records), lambda: loop.call_soon(then)))
        else:
            then()

    def shortage(self, index: int) -> Shortage | None:
        return self.short

    def most_bytes(self, index: int) -> int:
        return self.limit

    def append(self, index: int, records: Iterable[StateRecord]) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiting.append(_Write(list(records), future))
        return future

    def settle_first(self, outcome: str) -> None:
        """Settle the first write: `stored`; `refused`, not written; `unknown`, written without a response."""
        write = self.waiting.popleft()
        if outcome != "refused":
            self.records += write.records
        if outcome == "stored":
            self.replicate()
        if write.future.done():
            return
        if outcome == "stored":
            write.future.set_result(len(self.records))
        else:
            write.future.set_exception(
                CoordinatorNotAvailableError() if outcome == "refused" else RequestTimedOutError()
            )

    def crash(self, survivors: int, lost: int = 0) -> None:
        """Crash: so many of the open writes are in the log, except for the last `lost` records that may be lost."""
        for write in list(self.waiting)[:survivors]:
            self.records += write.records
        self.waiting.clear()
        del self.records[len(self.records) - min(lost, self.unreplicated) :]


class Data(NamedTuple):
    """A batch of the transaction `tag`."""

    producer: Producer
    tag: int


@dataclass
class SimulatedPartition:
    """A partition's log: data and markers in order. `key` and `log` are what admission looks at."""

    key: tuple[str, int]
    entries: list[Data | Marker] = field(default_factory=list)
    leader_epoch: int = 0

    def __post_init__(self) -> None:
        self.producers = ProducerStateManager("-".join(map(str, self.key)), 1 << 60)
        self.log: Any = self
        self._sequences: dict[Producer, int] = {}

    def write(self, producer: Producer, tag: int) -> None:
        """Append an admitted transactional batch.

        Raises:
            KafkaError: The producer is fenced.
        """
        sequence = self._sequences.get(producer, 0)
        offset = len(self.entries)
        self.producers.check(producer.id, producer.epoch, sequence, sequence, transactional=True)
        self.producers.update(producer.id, producer.epoch, sequence, offset, offset, 0, transactional=True)
        self._sequences[producer] = sequence + 1
        self.entries.append(Data(producer, tag))

    def mark(self, marker: Marker) -> None:
        """Append a marker.

        Raises:
            KafkaError: The partition knows a newer producer or coordinator.
        """
        self.producers.check_marker(marker.producer_id, marker.producer_epoch, marker.coordinator_epoch)
        self.producers.complete(
            marker.producer_id, marker.producer_epoch, marker.coordinator_epoch, len(self.entries), 0,
            aborted=not marker.committed,
        )  # fmt: skip
        self.entries.append(marker)


class SimulatedMarkers:
    """Write markers into partitions; the test completes each write."""

    def __init__(self, partitions: dict[tuple[str, int], SimulatedPartition]) -> None:
        self._partitions = partitions
        self.waiting: deque[tuple[SimulatedPartition, Marker, asyncio.Future[int]]] = deque()

    def write(self, topic: str, index: int, marker: Marker) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.waiting.append((self._partitions[topic, index], marker, future))
        return future

    def settle_first(self, outcome: str) -> None:
        """Settle the first write: `stored`; `refused` by a failed disk; `unknown`, written without a response."""
        partition, marker, future = self.waiting.popleft()
        error: KafkaError | None = None
        if outcome == "refused":
            error = KafkaStorageError()
        else:
            try:
                partition.mark(marker)
            except KafkaError as refusal:
                error = refusal
            else:
                error = None if outcome == "stored" else RequestTimedOutError()
        if future.done():
            return
        if error is None:
            future.set_result(0)
        else:
            future.set_exception(error)

    def crash(self, survivors: int) -> None:
        """Crash: any of the open writes may be in the log."""
        for partition, marker, _ in list(self.waiting)[:survivors]:
            try:
                partition.mark(marker)
            except KafkaError:
                continue
        self.waiting.clear()
