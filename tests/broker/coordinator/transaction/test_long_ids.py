"""Test transactional ids that no record can hold, and changes that cannot be encoded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from broker.coordinator.transaction import coordinator as coordinator_module
from broker.coordinator.transaction.coordinator import TransactionCoordinator
from broker.coordinator.transaction.machine import Producer
from kafkalog.protocol.errors import InvalidRequestError
from kafkalog.protocol.primitives import MAX_STRING, EncodeError
from tests.broker.coordinator.support import Stored
from tests.broker.coordinator.transaction.simulated import SimulatedLog, coordinator_of
from tests.broker.serving import Serving

NOW = 1_700_000_000_000
LONG = "\ufffd" * 20_000
"""An id of 20,000 bytes that are not UTF-8, as it is read."""


def run(work: Callable[[TransactionCoordinator, SimulatedLog], Awaitable[None]]) -> None:
    async def started() -> None:
        log = SimulatedLog()
        coordinator = coordinator_of(log, 7, NOW)
        coordinator.start()
        # Its tasks begin.
        await asyncio.sleep(0)
        await work(coordinator, log)
        await coordinator.stop()

    asyncio.run(started())


def test_an_id_that_no_record_can_hold_is_refused() -> None:
    async def work(coordinator: TransactionCoordinator, log: SimulatedLog) -> None:
        with pytest.raises(InvalidRequestError):
            await coordinator.init_producer_id(LONG, 60_000)
        assert coordinator.all() == []

    run(work)


def test_a_change_that_cannot_be_encoded_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine with a pending change is never removed, and refuses every request."""

    def no_bytes(transactional_id: str) -> bytes:
        raise EncodeError("a field is too long")

    async def work(coordinator: TransactionCoordinator, log: SimulatedLog) -> None:
        with monkeypatch.context() as broken:
            broken.setattr(coordinator_module, "encode_key", no_bytes)
            with pytest.raises(EncodeError):
                await coordinator.init_producer_id("id", 60_000)
        assert coordinator.describe("id").pending is None
        begins = asyncio.ensure_future(coordinator.init_producer_id("id", 60_000))
        while not log.waiting:
            await asyncio.sleep(0)
        log.settle_first("stored")
        assert await begins == Producer(7, 0)

    run(work)


def test_long_ids_do_not_keep_others_from_expiring(stored: Callable[..., Stored]) -> None:
    """One batch would be too large for the log."""
    parts = stored(transaction_state_log_num_partitions="1", transactional_id_expiration_ms="1000")
    serving = Serving(parts, {})
    longest = MAX_STRING - 2
    ids = [name for number in range(40) for name in (f"{number:02}" + "x" * longest, f"short-{number}")]

    async def work() -> None:
        coordinator = serving.broker.transactions.coordinator
        await coordinator.ensure()
        coordinator.start()
        for transactional_id in ids:
            await coordinator.init_producer_id(transactional_id, 60_000)
        assert len(coordinator.all()) == len(ids)
        parts.now += 1000
        await coordinator.remove_expired()
        assert coordinator.all() == []
        await coordinator.stop()

    serving.run(work())
