"""Notices of changed configurations, which a broker follows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest

from broker.metadata.tree.notices import BLIND_S, OF_CONFIGS, Notices
from broker.metadata.tree.session import Session
from broker.metadata.znodes import notices, paths
from broker.zookeeper.interface import ConnectionLossError, Watch, ensure
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession


def test_changes_are_followed_after_what_nobody_has_foreseen(caplog: pytest.LogCaptureFixture) -> None:
    async def main(loop: VirtualLoop) -> None:
        zookeeper = SimulatedSession(SimulatedEnsemble(loop, random.Random(1)), 6)
        await ensure(zookeeper, paths.CONFIG_CHANGES)
        defects, found = [True, False], list[str]()

        async def read(names: Iterable[str]) -> None:
            if defects.pop(0):
                raise RuntimeError("a defect")
            found.extend(names)

        async def read_all() -> None: ...

        following = Notices(OF_CONFIGS, Session(zookeeper, loop, patience_s=6), lambda: 0, read, read_all)
        await following.start()
        await zookeeper.create(paths.CONFIG_CHANGE_PREFIX, notices.encode_config_change("topics/t"), is_sequential=True)
        async with asyncio.timeout(60):
            while not found:
                await asyncio.sleep(0.01)
        assert found == ["topics/t"]
        assert "a defect" in caplog.text
        await following.stop()

    virtual_time.run(main)


def test_everything_is_read_after_a_long_loss_that_began_while_notices_were_read() -> None:
    """Other brokers may have removed the notices of that time."""

    async def main(loop: VirtualLoop) -> None:
        ensemble = SimulatedEnsemble(loop, random.Random(1))
        zookeeper, other = SimulatedSession(ensemble, 6), SimulatedSession(ensemble, 6)
        await ensure(zookeeper, paths.CONFIG_CHANGES)
        read_at, children = list[float](), zookeeper.children

        async def read(names: Iterable[str]) -> None: ...

        async def read_all() -> None:
            read_at.append(loop.time())

        async def break_off(path: str, watch: Watch | None = None) -> list[str]:
            zookeeper.children = children  # type: ignore[method-assign]
            zookeeper.disconnect()
            # kazoo tells of the loss before the requests fail.
            await asyncio.sleep(0)
            raise ConnectionLossError("the connection is lost")

        following = Notices(OF_CONFIGS, Session(zookeeper, loop, patience_s=6), lambda: 0, read, read_all)
        await following.start()
        zookeeper.children = break_off  # type: ignore[method-assign]
        await other.create(paths.CONFIG_CHANGE_PREFIX, notices.encode_config_change("topics/t"), is_sequential=True)
        async with asyncio.timeout(60):
            while zookeeper.is_connected:
                await asyncio.sleep(0.01)
        await asyncio.sleep(BLIND_S)
        zookeeper.reconnect()
        await asyncio.sleep(60)
        assert len(read_at) == 2
        await following.stop()

    virtual_time.run(main)
