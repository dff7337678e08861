"""Test that silent producers are forgotten in turns with other work, however many a log or all logs have."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

from broker.log.producer_state import producer_expiry
from broker.log.producer_state.producer_expiry import remove_expired
from broker.log.producer_state.producer_state_manager import ProducerStateManager

EXPIRATION_MS = 1000


def with_producers(directory: Path, count: int) -> ProducerStateManager:
    """Make a log's producers, of which every other one is silent for long."""
    manager = ProducerStateManager(str(directory), EXPIRATION_MS)
    for number in range(count):
        manager.update(number, 0, 0, number, number, EXPIRATION_MS * (number % 2))
    return manager


@pytest.mark.parametrize(
    ("counts", "turns"),
    [([10, 10, 10], [20, 10]), ([50, 0, 5], [20, 20, 15]), ([0, 0, 0], [0]), ([15, 15], [15, 15])],
    ids=["many logs", "a large log", "nothing", "logs of half a turn"],
)
def test_producers_are_looked_at_in_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, counts: list[int], turns: list[int]
) -> None:
    monkeypatch.setattr(producer_expiry, "PRODUCERS_AT_ONCE", 20)
    monkeypatch.setattr(producer_expiry, "PRODUCERS_OF_LOG", 0)
    logs = [with_producers(tmp_path, count) for count in counts]
    looked_at = Counter[int]()
    turn = 0
    remove = ProducerStateManager.remove_expired

    def note(manager: ProducerStateManager, now_ms: int, among: Iterable[int]) -> int:
        looked_at[turn] += len(list(among))
        return remove(manager, now_ms, among)

    monkeypatch.setattr(ProducerStateManager, "remove_expired", note)

    async def work() -> None:
        nonlocal turn
        expiring = asyncio.ensure_future(remove_expired(logs, lambda: EXPIRATION_MS))
        while not expiring.done():
            turn += 1
            await asyncio.sleep(0)

    asyncio.run(work())
    assert list(looked_at.values()) == turns
    assert [sorted(log.producers) for log in logs] == [list(range(1, count, 2)) for count in counts]


def test_logs_without_producers_take_time_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_expiry, "PRODUCERS_AT_ONCE", 20)
    monkeypatch.setattr(producer_expiry, "PRODUCERS_OF_LOG", 10)
    logs = [with_producers(tmp_path, 0) for _ in range(10)]

    async def work() -> int:
        expiring = asyncio.ensure_future(remove_expired(logs, lambda: EXPIRATION_MS))
        turns = 0
        while not expiring.done():
            turns += 1
            await asyncio.sleep(0)
        return turns

    assert asyncio.run(work()) > 3
