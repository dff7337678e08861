"""Helpers of tests of links: a link that leaves nothing behind, and bounded waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

from broker.net.links.link import Link, LinkSettings
from broker.system.workers import ThreadWorkers

T = TypeVar("T")
DEADLINE_S = 60.0
SETTINGS = LinkSettings(client_id="test-link", request_timeout=DEADLINE_S, max_response_bytes=64 << 20, backoff=0.001)


@asynccontextmanager
async def linked(address: str, settings: LinkSettings = SETTINGS, **more: Any) -> AsyncIterator[Link]:
    """A link to `host:port` on the running loop, closed at the end; nothing of it is left then."""
    host, _, port = address.rpartition(":")
    workers = ThreadWorkers(1)
    tasks = asyncio.all_tasks()
    link = Link(
        host,
        int(port),
        settings,
        loop=asyncio.get_running_loop(),
        workers=workers,
        chance=random.Random(1),
        **more,
    )
    try:
        yield link
    finally:
        await link.close()
        workers.close(wait=True)
        assert asyncio.all_tasks() == tasks


def run(main: Coroutine[Any, Any, T]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(2 * DEADLINE_S):
            return await main

    return asyncio.run(bounded())


async def until(holds: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(DEADLINE_S):
            while not holds():
                await asyncio.sleep(0.005)
    except TimeoutError:
        pytest.fail(f"waited in vain: {what}")
