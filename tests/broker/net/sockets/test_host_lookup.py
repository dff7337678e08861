"""Test that failed look-ups of host addresses do not use up the limit of concurrent look-ups."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from broker.net.sockets.host_lookup import AT_ONCE, HostLookup

PATIENCE_S = 60.0


@pytest.fixture
def too_many_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        yield patch


def test_a_thread_that_does_not_start_takes_no_place(too_many_threads: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        lookup = HostLookup(asyncio.get_running_loop(), PATIENCE_S)
        async with asyncio.timeout(PATIENCE_S / 2):
            assert await lookup.addresses_of([f"host{number}" for number in range(2 * AT_ONCE)]) == {}
        too_many_threads.undo()
        assert await lookup.addresses_of(["127.0.0.1"]) == {"127.0.0.1": "127.0.0.1"}

    asyncio.run(main())
