"""Tests of the coordinator when stored records cannot be read, or tombstones cannot be stored."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import pytest

from broker.coordinator.state_log import LOADS_AT_ONCE, RETRY_LOAD_MS, Shortage, StateBatch, StateRecord
from broker.coordinator.transaction import waiting
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer, Transaction, TransactionState
from broker.coordinator.transaction.markers import Marker
from broker.coordinator.transaction.records import encode_key, encode_value
from broker.coordinator.transaction.settings import TransactionSettings
from kafkalog.protocol.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    KafkaStorageError,
    NotCoordinatorError,
    NotLeaderOrFollowerError,
)
from tests.broker.coordinator.transaction.simulated import SimulatedLog, never_absent

PARTITIONS = 10
EXPIRATION_MS = 1000
LARGEST = 4321


class Log(SimulatedLog):
    """Partitions with the same records. `broken` is raised by each read, after `may_end` is set."""

    partitions = PARTITIONS

    def __init__(self) -> None:
        super().__init__()
        value = encode_value(Transaction(LARGEST, 0, 60_000, TransactionState.EMPTY, 0))
        self.records = [StateRecord(encode_key("id"), value)]
        self.replicate()
        self.begin(0)
        self.broken: Exception | None = None
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.reads = self.reading = self.most = 0

    async def replay(self, index: int, apply: Callable[[list[StateBatch]], None]) -> AsyncIterator[None]:
        self.reads += 1
        self.reading += 1
        self.most = max(self.most, self.reading)
        await self.may_end.wait()
        self.reading -= 1
        if self.broken is not None:
            raise self.broken
        async for _ in super().replay(index, apply):
            yield

    def append(self, index: int, records: Iterable[StateRecord]) -> asyncio.Future[int]:
        if self.broken is not None:
            raise self.broken
        return super().append(index, records)


class World:
    def __init__(self) -> None:
        self.log = Log()
        self.now = 1_700_000_000_000
        self.reserved: list[int] = []
        self.writes: list[asyncio.Future[int]] = []
        self.unreservable: Exception | None = None
        self.coordinator = TransactionCoordinator(
            log=self.log,
            write_marker=self.write_marker,
            is_known=lambda topic, index: True,
            is_absent=never_absent,
            allocate_producer_id=self.allocate,
            reserve_producer_ids=self.reserve,
            settings=lambda: TransactionSettings(expiration_ms=EXPIRATION_MS),
            now_ms=lambda: self.now,
        )

    def write_marker(self, topic: str, index: int, marker: Marker) -> asyncio.Future[int]:
        self.writes.append(asyncio.get_running_loop().create_future())
        return self.writes[-1]

    async def allocate(self) -> int:
        return LARGEST + 1

    async def reserve(self, largest: int) -> None:
        if self.unreservable is not None:
            raise self.unreservable
        self.reserved.append(largest)

    async def settled(self) -> None:
        for _ in range(20 * PARTITIONS):
            await asyncio.sleep(0)


def test_few_are_loaded_at_once() -> None:
    async def work() -> None:
        world = World()
        world.log.may_end.clear()
        world.coordinator.start()
        await world.settled()
        assert world.log.most == LOADS_AT_ONCE
        with pytest.raises(CoordinatorLoadInProgressError):
            world.coordinator.describe("id")
        world.log.may_end.set()
        await world.settled()
        assert world.coordinator.loads == PARTITIONS
        assert world.log.most == LOADS_AT_ONCE
        assert world.reserved == [LARGEST] * PARTITIONS
        assert world.coordinator.describe("id").current.producer_id == LARGEST
        await world.coordinator.stop()

    asyncio.run(work())


def test_a_partition_that_is_stuck_delays_no_time_outs_of_others() -> None:
    async def work() -> None:
        world = World()
        ongoing = Transaction(LARGEST, 0, 60_000, TransactionState.ONGOING, 0, frozenset({("t", 0)}), 0)
        world.log.records = [StateRecord(encode_key("id"), encode_value(ongoing))]
        world.coordinator.start()
        await world.settled()
        aborting = asyncio.ensure_future(world.coordinator.abort_timed_out())
        await world.settled()
        assert len(world.log.waiting) == PARTITIONS, "no write is replicated"
        aborting.cancel()
        await asyncio.gather(aborting, return_exceptions=True)
        await world.coordinator.stop()

    asyncio.run(work())


def test_transactions_stay_loaded_while_their_partition_stays_led() -> None:
    async def work() -> None:
        world = World()
        world.coordinator.start()
        await world.settled()
        world.log.raise_epoch()
        for index in range(PARTITIONS):
            world.coordinator.role_changed(index)
        await world.settled()
        assert world.coordinator.loads == PARTITIONS
        world.log.begin(2)
        for index in range(PARTITIONS):
            world.coordinator.role_changed(index)
        await world.settled()
        assert world.coordinator.loads == 2 * PARTITIONS
        await world.coordinator.stop()

    asyncio.run(work())


@pytest.mark.parametrize("what", ["read", "unforeseen", "reserved"])
def test_what_cannot_be_loaded_is_tried_again_after_a_pause(what: str) -> None:
    async def work() -> None:
        world = World()
        if what == "reserved":
            world.unreservable = KafkaStorageError("the registry is full")
        else:
            world.log.broken = NotCoordinatorError() if what == "read" else ZeroDivisionError()
        world.coordinator.start()
        await world.settled()
        for _ in range(3):
            with pytest.raises(NotCoordinatorError):
                world.coordinator.describe("id")
            await world.settled()
        assert world.log.reads == PARTITIONS
        world.log.broken = world.unreservable = None
        world.now += RETRY_LOAD_MS
        with pytest.raises(CoordinatorLoadInProgressError):
            world.coordinator.describe("id")
        await world.settled()
        assert world.coordinator.describe("id").current.producer_id == LARGEST
        await world.coordinator.stop()

    asyncio.run(work())


def test_a_decision_in_a_partition_that_could_not_be_loaded_is_carried_out_without_a_request() -> None:
    async def work() -> None:
        world = World()
        decided = Transaction(7, 0, 60_000, TransactionState.PREPARE_COMMIT, 0, frozenset({("money", 0)}))
        world.log.records = [StateRecord(encode_key("id"), encode_value(decided))]
        world.log.broken = OSError("too many open files")
        world.coordinator.start()
        await world.settled()
        world.log.broken = None
        await world.coordinator.load_again()
        await world.settled()
        assert not world.writes, "it is tried again after a pause"
        world.now += RETRY_LOAD_MS
        await world.coordinator.load_again()
        await world.settled()
        assert len(world.writes) == PARTITIONS
        await world.coordinator.stop()

    asyncio.run(work())


@pytest.mark.parametrize("is_lost", [False, True])
def test_a_decision_is_carried_out_when_it_is_replicated(is_lost: bool) -> None:
    """The leader after this one may not have it, and would abort the transaction."""

    async def work() -> None:
        world = World()
        decided = Transaction(7, 0, 60_000, TransactionState.PREPARE_COMMIT, 0, frozenset({("money", 0)}))
        world.log.records = [StateRecord(encode_key("id"), encode_value(decided))]
        world.log.replicate()
        world.log.begin(0)
        replicated: list[Callable[[], None]] = []

        def when_end_is_replicated(index: int, then: Callable[[], None]) -> None:
            if index == 0:
                replicated.append(then)

        world.log.when_end_is_replicated = when_end_is_replicated  # type: ignore[method-assign]
        world.coordinator.start()
        await world.settled()
        assert world.coordinator.describe("id").current.state is TransactionState.PREPARE_COMMIT
        assert not world.writes
        # The producer repeats its request at the new leader. An error that is final would tell it that it has failed.
        with pytest.raises(ConcurrentTransactionsError):
            await world.coordinator.end("id", Producer(7, 0), committed=True)
        if is_lost:
            world.log.begin(1)
        for then in replicated:
            then()
        await world.settled()
        assert len(world.writes) == (0 if is_lost else 1)
        await world.coordinator.stop()

    asyncio.run(work())


def test_decisions_that_wait_for_replicas_are_told_once_for_each_isr(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0)

    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]

    async def work() -> None:
        world = World()
        world.log.partitions = 1
        decided = Transaction(7, 0, 60_000, TransactionState.PREPARE_COMMIT, 0, frozenset({("money", 0)}))
        for name in ("one", "two"):
            world.log.records.append(StateRecord(encode_key(name), encode_value(decided)))
        world.log.begin(0)
        world.coordinator.start()
        await world.settled()
        assert world.coordinator.waiting.count == 2
        assert not told(), "the ISR is large enough: followers are about to have them"
        for isr in ((1,), (1, 2)):
            world.log.short = Shortage(isr, 3)
            await world.settled()
        assert told() == [
            "__transaction_state-0: 2 decided transactions wait until their decisions are replicated. "
            f"The ISR is {isr}, and min.insync.replicas is 3"
            for isr in ([1], [1, 2])
        ]
        assert len(world.coordinator.all()) == 3, "it has been loaded"
        world.log.short = None
        world.log.replicate()
        await world.settled()
        assert world.coordinator.waiting.count == 0
        assert len(world.writes) == 2
        assert len(told()) == 2
        await world.coordinator.stop()

    asyncio.run(work())


def test_decisions_of_a_leader_that_is_replaced_wait_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LOOK_S", 0)

    async def work() -> None:
        world = World()
        world.log.partitions = 1
        decided = Transaction(7, 0, 60_000, TransactionState.PREPARE_COMMIT, 0, frozenset({("money", 0)}))
        world.log.records.append(StateRecord(encode_key("one"), encode_value(decided)))
        world.log.begin(0)
        world.coordinator.start()
        await world.settled()
        assert world.coordinator.waiting.count == 1
        world.log.records.clear()
        world.log.begin(1)
        await world.settled()
        assert world.coordinator.waiting.count == 0
        await world.coordinator.stop()

    asyncio.run(work())


def test_ids_that_cannot_be_forgotten_stay() -> None:
    async def work() -> None:
        world = World()
        world.coordinator.start()
        await world.settled()
        world.now += EXPIRATION_MS
        world.log.broken = ZeroDivisionError()
        await world.coordinator.remove_expired()
        assert world.coordinator.describe("id").pending is None
        await world.coordinator.stop()

    asyncio.run(work())


def test_a_new_leader_loads_before_it_is_asked_and_once_more_if_the_epoch_changes_meanwhile() -> None:
    async def work() -> None:
        world = World()
        world.coordinator.role_changed(0)
        await world.settled()
        assert world.log.reads == 0, "it has not been started"
        world.coordinator.start()
        await world.settled()
        assert world.coordinator.loads == PARTITIONS
        world.log.may_end.clear()
        world.log.begin(1)
        world.coordinator.role_changed(0)
        await world.settled()
        world.log.begin(2)
        world.coordinator.role_changed(0)
        world.log.may_end.set()
        await world.settled()
        assert world.coordinator.loads == PARTITIONS + 1
        assert world.coordinator.describe("id").current.producer_id == LARGEST
        await world.coordinator.stop()

    asyncio.run(work())


def test_a_marker_that_fails_after_the_stop_is_no_error_of_the_loop() -> None:
    async def work() -> None:
        world, errors = World(), list[dict[str, Any]]()
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
        decided = Transaction(LARGEST, 0, 60_000, TransactionState.PREPARE_COMMIT, 0, frozenset({("t", 0)}))
        world.log.records = [StateRecord(encode_key("id"), encode_value(decided))]
        world.coordinator.start()
        await world.settled()
        assert world.writes
        await world.coordinator.stop()
        for write in world.writes:
            write.set_exception(NotLeaderOrFollowerError())
        del write
        world.writes.clear()
        await world.settled()
        gc.collect()
        assert errors == []

    asyncio.run(work())
