"""Test that a start which is given up leaves no session with ZooKeeper behind, and does not wait for one."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from broker.zookeeper import kazoo_client
from broker.zookeeper.kazoo_client import KazooSession

pytestmark = pytest.mark.timeout(60)
FOREVER_S = 100_000.0


class Client:
    """Stands for kazoo's client.

    Attributes:
        has_ended: set when its session is ended.
    """

    def __init__(self) -> None:
        self.has_ended = threading.Event()

    def stop(self) -> None:
        self.has_ended.set()

    def close(self) -> None: ...


async def cancelled(connecting: asyncio.Future[Any]) -> None:
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting


def test_who_gives_up_does_not_wait_for_zookeeper() -> None:
    """It accepts the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"

        async def scenario() -> None:
            connecting = asyncio.ensure_future(
                KazooSession.connect(address, session_timeout=4.0, connect_timeout=FOREVER_S)
            )
            accepted, _ = await asyncio.to_thread(silent.accept)
            with accepted:
                await cancelled(connecting)

        # It waits for the threads that it has given work.
        asyncio.run(scenario())


class Threads(ThreadPoolExecutor):
    """Threads that tell when work is done, before the event loop learns of it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_done = threading.Event()

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        found = super().submit(work, *arguments, **named)
        found.add_done_callback(lambda done: self.is_done.set())
        return found


@pytest.mark.parametrize("is_there", [False, True], ids=["it comes later", "it is there"])
def test_a_session_that_nobody_waits_for_is_ended(monkeypatch: pytest.MonkeyPatch, is_there: bool) -> None:
    client, begun, may_come = Client(), threading.Event(), threading.Event()

    def open_client(*arguments: Any, **named: Any) -> Client:
        begun.set()
        may_come.wait()
        return client

    monkeypatch.setattr(kazoo_client, "open_client", open_client)

    async def scenario() -> None:
        threads = Threads()
        asyncio.get_running_loop().set_default_executor(threads)
        connecting = asyncio.ensure_future(KazooSession.connect("here:1", session_timeout=1.0, connect_timeout=1.0))
        while not begun.is_set():
            await asyncio.sleep(0)
        if is_there:
            may_come.set()
            threads.is_done.wait()
        await cancelled(connecting)
        may_come.set()

    asyncio.run(scenario())
    assert client.has_ended.is_set()
