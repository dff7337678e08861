"""Notices of changed configurations, which a broker follows."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable

import pytest

from broker.metadata.tree.notices import OF_CONFIGS, Notices
from broker.metadata.tree.session import Session
from broker.metadata.znodes import notices, paths
from broker.zookeeper.interface import ensure
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
