"""The time for which a broker that is cut off from ZooKeeper may go on; on simulated time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine

import pytest

from broker.member.lease import QUESTIONS, Lease
from broker.zookeeper.interface import ensure
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

SESSION_S = 6.0
PATH = "/here"


class World:
    """A lease that is asked for, and when it ended."""

    def __init__(self, loop: VirtualLoop, seed: int, asked: float) -> None:
        self.loop = loop
        self.chance = random.Random(seed)
        self.ensemble = SimulatedEnsemble(loop, self.chance)
        self.ensemble.longest_session = SESSION_S
        self.session = SimulatedSession(self.ensemble, asked)
        self.ends: list[float] = []
        self.lease = Lease(self.session, loop, PATH, lambda: self.ends.append(loop.time()))


def with_lease(work: Callable[[World], Coroutine[None, None, None]], seed: int = 1, asked: float = SESSION_S) -> None:
    async def main(loop: VirtualLoop) -> None:
        world = World(loop, seed, asked)
        await ensure(world.session, PATH)
        world.lease.begin()
        await work(world)
        await world.lease.stop()

    virtual_time.run(main)


def test_it_lasts_as_long_as_zookeeper_answers() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(100 * SESSION_S)
        assert world.ends == []

    with_lease(work)


@pytest.mark.parametrize("asked", [SESSION_S, 3 * SESSION_S])
@pytest.mark.parametrize("seed", range(5))
def test_it_ends_before_the_session_does(seed: int, asked: float) -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(world.chance.uniform(0.1, 3 * SESSION_S))
        world.session.disconnect()
        cut_off_at = world.loop.time()
        await asyncio.sleep(5 * SESSION_S)
        (ended_at,) = world.ends
        assert SESSION_S * (1 - 1 / QUESTIONS) - 0.01 <= ended_at - cut_off_at <= SESSION_S
        assert world.lease.is_over
        assert world.session.has_expired

    with_lease(work, seed, asked)


def test_it_is_shorter_when_another_server_grants_less() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(SESSION_S)
        world.session.disconnect()
        world.ensemble.longest_session = SESSION_S / 3
        world.session.reconnect()
        cut_off_at = world.loop.time()
        world.session.disconnect()
        await asyncio.sleep(SESSION_S / 3 + 0.01)
        assert world.session.has_expired
        assert world.lease.is_over
        (ended_at,) = world.ends
        assert ended_at - cut_off_at <= SESSION_S / 3
        world.session.reconnect()
        world.ensemble.longest_session = SESSION_S
        world.session.disconnect()
        world.session.reconnect()
        assert world.session.session_timeout == SESSION_S
        assert world.lease.is_over, "nothing was asked in the session that the larger time-out was granted to"
        await asyncio.sleep(0)
        assert len(world.ends) == 1

    with_lease(work)


def test_it_is_over_by_the_clock_before_the_timer_runs() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(SESSION_S)
        assert not world.lease.is_over
        world.loop.freeze(SESSION_S + 0.1)
        assert world.lease.is_over
        assert world.ends == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert len(world.ends) == 1
        await asyncio.sleep(SESSION_S)
        assert not world.lease.is_over, "ZooKeeper answers again"

    with_lease(work)


def test_it_survives_short_losses_of_the_connection() -> None:
    async def work(world: World) -> None:
        for _ in range(20):
            world.session.disconnect()
            await asyncio.sleep(0.8 * SESSION_S)
            world.session.reconnect()
            await asyncio.sleep(0.2 * SESSION_S)
        assert world.ends == []

    with_lease(work)


def test_an_answer_that_comes_too_late_ends_it_and_an_older_one_changes_nothing() -> None:
    async def work(world: World) -> None:
        world.session.disconnect()
        await asyncio.sleep(2 * SESSION_S)
        now = world.loop.time()
        ended = len(world.ends)
        world.lease.renew(now - SESSION_S - 1)
        await asyncio.sleep(0.01)
        assert len(world.ends) == ended + 1
        world.lease.renew(now)
        world.lease.renew(now - SESSION_S)
        await asyncio.sleep(SESSION_S - 0.1)
        assert len(world.ends) == ended + 1
        await asyncio.sleep(0.1)
        assert world.ends[ended + 1 :] == [now + SESSION_S]

    with_lease(work)


def test_it_does_not_end_after_it_was_stopped() -> None:
    async def work(world: World) -> None:
        await asyncio.sleep(SESSION_S)
        await world.lease.stop()
        await asyncio.sleep(5 * SESSION_S)
        assert world.ends == []
        assert world.lease.is_over

    with_lease(work)


def test_it_is_asked_for_after_what_nobody_has_foreseen(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(world: World) -> None:
        async def breaks(path: str) -> None:
            raise RuntimeError("a defect")

        with monkeypatch.context() as patch:
            patch.setattr(world.session, "get", breaks)
            await asyncio.sleep(SESSION_S / 2)
        await asyncio.sleep(5 * SESSION_S)
        assert world.ends == []
        assert "a defect" in caplog.text

    with_lease(work)
