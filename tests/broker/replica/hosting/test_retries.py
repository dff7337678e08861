"""Test when partitions that could not be hosted are tried again, on simulated time."""

from __future__ import annotations

import asyncio

import pytest

from broker.replica.hosting.retries import FIRST_SECONDS, LAST_SECONDS, TRIED_AT_ONCE, HostingRetries
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop

ONE = ("t", 0)
HOUR = 3600.0


def failing(loop: VirtualLoop, times: list[float]) -> HostingRetries:
    """Retry one partition, in vain. Each attempt adds it again, as `ReplicaManager.host_partition` does."""

    def fails(key: tuple[str, int]) -> bool:
        times.append(loop.time())
        retries.add(key)
        return False

    retries = HostingRetries(loop, fails)
    retries.add(ONE)
    return retries


def test_a_partition_that_stays_offline_is_tried_ever_more_rarely() -> None:
    times: list[float] = []

    async def main(loop: VirtualLoop) -> None:
        retries = failing(loop, times)
        await asyncio.sleep(HOUR)
        retries.close()
        tried = len(times)
        await asyncio.sleep(HOUR)
        assert len(times) == tried

    virtual_time.run(main)
    pauses = [after - before for before, after in zip([0.0, *times], times, strict=False)]
    assert pauses[:8] == [FIRST_SECONDS, 1, 2, 4, 8, 16, 32, LAST_SECONDS]
    assert set(pauses[8:]) == {LAST_SECONDS}


def test_one_that_a_client_asks_for_is_tried_soon_and_once() -> None:
    times: list[float] = []

    async def main(loop: VirtualLoop) -> None:
        retries = failing(loop, times)
        await asyncio.sleep(HOUR)
        times.clear()
        asked_at = loop.time()
        retries.asked(ONE)
        await asyncio.sleep(LAST_SECONDS + FIRST_SECONDS)
        assert times == [asked_at + FIRST_SECONDS, asked_at + FIRST_SECONDS + LAST_SECONDS]
        retries.close()

    virtual_time.run(main)


def test_it_is_told_once_that_several_are_hosted() -> None:
    works = False
    told: list[float] = []

    async def main(loop: VirtualLoop) -> None:
        retries = HostingRetries(loop, lambda key: works and key != ONE)
        retries.on_ended = lambda: told.append(loop.time())
        for index in range(3 * TRIED_AT_ONCE):
            retries.add(("t", index))
        await asyncio.sleep(10 * FIRST_SECONDS)
        assert told == []
        nonlocal works
        works = True
        await asyncio.sleep(HOUR)
        assert len(told) == 1
        retries.close()

    virtual_time.run(main)


def test_a_defect_that_one_meets_keeps_no_other_one_offline(caplog: pytest.LogCaptureFixture) -> None:
    hosted: set[tuple[str, int]] = set()

    async def main(loop: VirtualLoop) -> None:
        def tries(key: tuple[str, int]) -> bool:
            if key == ONE:
                raise RuntimeError("a defect")
            hosted.add(key)
            return True

        retries = HostingRetries(loop, tries)
        wanted = [("t", index) for index in range(2 * TRIED_AT_ONCE)]
        for key in wanted:
            retries.add(key)
        await asyncio.sleep(2 * FIRST_SECONDS)
        retries.close()
        assert hosted == set(wanted[1:])

    virtual_time.run(main)
    assert "t-0 cannot be hosted" in caplog.text
