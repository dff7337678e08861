"""Test that a coordinator answers a repeated request only once it has written: another broker may have replaced it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from broker.coordinator.state_log import StateRecord
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer, Transaction, TransactionState
from broker.coordinator.transaction.records import encode_key, encode_value
from kafkalog.protocol.errors import CoordinatorNotAvailableError
from tests.broker.coordinator.transaction.simulated import SimulatedLog, coordinator_of

NOW = 1_700_000_000_000
PRODUCER = Producer(7, 4)
PARTITION = ("data", 0)

Request = Callable[[TransactionCoordinator], Coroutine[Any, Any, None]]


def add(coordinator: TransactionCoordinator) -> Coroutine[Any, Any, None]:
    return coordinator.add_partitions("id", PRODUCER, [PARTITION])


def commit(coordinator: TransactionCoordinator) -> Coroutine[Any, Any, None]:
    return coordinator.end("id", PRODUCER, committed=True)


def abort(coordinator: TransactionCoordinator) -> Coroutine[Any, Any, None]:
    return coordinator.end("id", PRODUCER, committed=False)


@pytest.mark.parametrize("outcome", ["stored", "refused"])
@pytest.mark.parametrize(
    ("state", "request_again"),
    [
        (TransactionState.ONGOING, add),
        (TransactionState.COMPLETE_COMMIT, commit),
        (TransactionState.COMPLETE_ABORT, abort),
    ],
)
def test_a_repeated_request_is_answered_only_if_this_broker_can_still_write(
    state: TransactionState, request_again: Request, outcome: str
) -> None:
    async def work() -> None:
        log = SimulatedLog()
        partitions = frozenset({PARTITION}) if state is TransactionState.ONGOING else frozenset()
        stored = Transaction(*PRODUCER, 60_000, state, NOW, partitions, NOW)
        log.records.append(StateRecord(encode_key("id"), encode_value(stored)))
        log.begin(1)
        coordinator = coordinator_of(log, 8, NOW)
        coordinator.start()
        for _ in range(10):
            await asyncio.sleep(0)
        answered = asyncio.ensure_future(request_again(coordinator))
        await asyncio.sleep(0)
        assert not answered.done()
        log.settle_first(outcome)
        if outcome == "refused":
            with pytest.raises(CoordinatorNotAvailableError):
                await answered
        else:
            await answered
        machine = coordinator.describe("id")
        assert (machine.current.state, machine.current.partitions, machine.pending) == (state, partitions, None)
        await coordinator.stop()

    asyncio.run(work())
