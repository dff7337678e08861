"""A broker's registration: a start without ZooKeeper, and the failures that a registration survives."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from broker.config.definition import ConfigError
from broker.member.registration import Registration
from broker.metadata.model import BrokerRegistration
from broker.metadata.znodes import paths
from broker.zookeeper.interface import ensure
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession

SESSION_S = 6.0


def registration(session: SimulatedSession, loop: VirtualLoop, encode: Callable[[], bytes]) -> Registration:
    broker = BrokerRegistration(1, ())
    return Registration(session, loop, broker, encode, lambda: None, lambda: None, SESSION_S, has_lease=True)


def test_a_start_without_zookeeper_ends_with_an_error(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: VirtualLoop) -> None:
        session = SimulatedSession(SimulatedEnsemble(loop, random.Random(1)), SESSION_S)
        await ensure(session, paths.BROKER_IDS)

        def encode() -> bytes:
            session.disconnect()
            return b"{}"

        began = loop.time()
        with pytest.raises(ConfigError, match=r"zookeeper.connect: broker 1 could not be registered in 6 s"):
            await registration(session, loop, encode).start()
        assert loop.time() - began < 2 * SESSION_S
        assert "broker 1 is not registered yet" in caplog.text

    virtual_time.run(main)


def test_it_is_kept_after_what_nobody_has_foreseen(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: VirtualLoop) -> None:
        ensemble = SimulatedEnsemble(loop, random.Random(1))
        session, other = SimulatedSession(ensemble, SESSION_S), SimulatedSession(ensemble, SESSION_S)
        await ensure(session, paths.BROKER_IDS)
        defects = [False, True, False]

        def encode() -> bytes:
            if defects.pop(0):
                raise RuntimeError("a defect")
            return b"{}"

        kept = registration(session, loop, encode)
        await kept.start()
        before = kept.epoch
        await other.delete(paths.broker_id(1))
        async with asyncio.timeout(60):
            while kept.epoch <= before:
                await asyncio.sleep(0.01)
        assert "a defect" in caplog.text
        await kept.stop()

    virtual_time.run(main)
