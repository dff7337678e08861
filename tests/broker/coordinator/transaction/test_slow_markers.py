"""A partition whose leader is slow does not hold up the markers of a transaction in its other partitions."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable

import pytest

from broker.coordinator.state_log import StateRecord
from broker.coordinator.transaction import completion
from broker.coordinator.transaction.completion import MARKERS_AT_ONCE, Completion
from broker.coordinator.transaction.machine import TopicPartition, Transaction, TransactionMachine, TransactionState
from broker.coordinator.transaction.markers import Marker
from broker.coordinator.transaction.partition_transactions import PartitionTransactions
from kafkalog.protocol.errors import NotLeaderOrFollowerError, RequestTimedOutError
from tests.broker.coordinator.transaction.simulated import never_absent

PARTITIONS = [("data", index) for index in range(2 * MARKERS_AT_ONCE)]
SLOW, MOVED = PARTITIONS[0], PARTITIONS[1]
DEADLINE_S = 60


class World:
    """One decided transaction. The leader of SLOW answers when the test says so; that of MOVED is another at first."""

    def __init__(self) -> None:
        self.writes = Counter[TopicPartition]()
        self.slow: list[asyncio.Future[int]] = []
        self.stored: list[StateRecord] = []
        decided = Transaction(7, 0, 60_000, TransactionState.PREPARE_COMMIT, 0, frozenset(PARTITIONS))
        self.machine = TransactionMachine("id", decided)
        transactions = PartitionTransactions(0, 5, None)
        done = Completion(self.append, self.write, lambda topic, index: True, never_absent)
        self.running = done.run(transactions, self.machine, self.machine.complete(0), lambda: True)

    def append(self, index: int, records: Iterable[StateRecord]) -> asyncio.Future[int]:
        self.stored += records
        return self.ended(None)

    def write(self, topic: str, index: int, marker: Marker) -> asyncio.Future[int]:
        self.writes[topic, index] += 1
        if (topic, index) == SLOW:
            self.slow.append(asyncio.get_running_loop().create_future())
            return self.slow[-1]
        has_moved = (topic, index) == MOVED and self.writes[MOVED] < 3
        return self.ended(NotLeaderOrFollowerError() if has_moved else None)

    @staticmethod
    def ended(error: Exception | None) -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if error is None:
            future.set_result(0)
        else:
            future.set_exception(error)
        return future


def test_other_partitions_get_their_markers_meanwhile(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(completion, "FIRST_RETRY_SECONDS", 0.001)
    caplog.set_level(logging.WARNING, "broker.coordinator.transaction")

    async def work() -> World:
        world = World()
        running = asyncio.ensure_future(world.running)
        while world.machine.unmarked != {SLOW}:
            await asyncio.sleep(0.001)
        assert world.writes == {**dict.fromkeys(PARTITIONS, 1), MOVED: 3}
        assert not world.stored
        world.slow[0].set_exception(RequestTimedOutError())
        while len(world.slow) < 2:
            await asyncio.sleep(0.001)
        world.slow[1].set_result(0)
        await running
        return world

    world = asyncio.run(asyncio.wait_for(work(), DEADLINE_S))
    assert world.writes == {**dict.fromkeys(PARTITIONS, 1), MOVED: 3, SLOW: 2}
    assert world.machine.current.state is TransactionState.COMPLETE_COMMIT
    assert len(world.stored) == 1
    # Each partition is told of once.
    assert [record.args[1:3] for record in caplog.records if isinstance(record.args, tuple)] == [MOVED, SLOW]
