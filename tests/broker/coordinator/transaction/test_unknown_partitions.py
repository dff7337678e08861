"""A marker is left out only where ZooKeeper has no such partition: the controller may not have told of it yet."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from broker.coordinator.state_log import StateRecord
from broker.coordinator.transaction import completion
from broker.coordinator.transaction.completion import Completion
from broker.coordinator.transaction.machine import Transaction, TransactionMachine, TransactionState
from broker.coordinator.transaction.markers import Marker
from broker.coordinator.transaction.partition_transactions import PartitionTransactions
from broker.zookeeper.interface import ZooKeeperError

PARTITION = ("data", 1)


class World:
    """One decided transaction with one partition. `answers` are those of ZooKeeper, each given once."""

    def __init__(self, answers: Iterable[bool | Exception]) -> None:
        self.answers = list(answers)
        self.known = False
        self.marked: list[tuple[str, int]] = []
        self.stored: list[StateRecord] = []
        decided = Transaction(7, 0, 60_000, TransactionState.PREPARE_COMMIT, 0, frozenset({PARTITION}))
        self.machine = TransactionMachine("id", decided)
        self.transactions = PartitionTransactions(0, 5, None)
        self.completion = Completion(self.append, self.write, lambda topic, index: self.known, self.is_absent)

    def append(self, index: int, records: Iterable[StateRecord]) -> asyncio.Future[int]:
        self.stored += records
        return self.done()

    def write(self, topic: str, index: int, marker: Marker) -> asyncio.Future[int]:
        self.marked.append((topic, index))
        return self.done()

    @staticmethod
    def done() -> asyncio.Future[int]:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        future.set_result(0)
        return future

    async def is_absent(self, topic: str, index: int) -> bool:
        answer = self.answers.pop(0)
        # With the last answer the controller tells of the topic.
        self.known = not self.answers
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def run(self) -> None:
        await self.completion.run(self.transactions, self.machine, self.machine.complete(0), lambda: True)


@pytest.mark.parametrize(
    ("answers", "marked"),
    [
        ([False, False], [PARTITION]),
        ([OSError("no connection"), ZooKeeperError("refused"), False], [PARTITION]),
        ([False, True], []),
        ([RuntimeError("a mistake"), MemoryError(), False], [PARTITION]),
    ],
    ids=["not told yet", "ZooKeeper is away", "deleted", "errors that nobody foresaw"],
)
def test_a_partition_that_is_not_known(
    answers: list[bool | Exception], marked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(completion, "FIRST_RETRY_SECONDS", 0)
    monkeypatch.setattr(completion, "LAST_RETRY_SECONDS", 0)
    world = World(answers)
    asyncio.run(world.run())
    assert world.marked == marked
    assert not world.answers
    assert len(world.stored) == 1
    assert world.machine.current.state is TransactionState.COMPLETE_COMMIT
