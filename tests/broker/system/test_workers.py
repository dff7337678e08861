"""Tests of work on a worker thread that waits for the event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from broker.system import workers
from broker.system.workers import LoopClosedError, ThreadWorkers


async def on(loop_thread: int, error: Exception | None = None) -> str:
    assert threading.get_ident() == loop_thread
    await asyncio.sleep(0)
    if error is not None:
        raise error
    return "done"


def test_the_loop_does_it_and_its_result_or_error_comes_back() -> None:
    async def main() -> None:
        pool = ThreadWorkers(1)
        here = threading.get_ident()
        assert await pool.run(lambda: pool.on_loop(on(here))) == "done"
        for error in (KeyError("k"), TimeoutError("its own")):
            with pytest.raises(type(error), match=str(error)):
                await pool.run(lambda error=error: pool.on_loop(on(here, error)))  # type: ignore[misc]
        pool.close(wait=True)

    asyncio.run(main())


def test_a_loop_that_is_closed_ends_the_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "LOOP_CHECK_S", 0.01)
    pool = ThreadWorkers(1)
    begun, ended = threading.Event(), threading.Event()
    errors: list[Exception] = []

    async def never() -> None:
        begun.set()
        await asyncio.Event().wait()

    def work() -> None:
        try:
            pool.on_loop(never())
        except Exception as error:
            errors.append(error)
        ended.set()

    loop = asyncio.new_event_loop()

    async def main() -> None:
        pool.run(work)
        while not begun.is_set():
            await asyncio.sleep(0.001)

    loop.run_until_complete(main())
    waiting = asyncio.all_tasks(loop)
    loop.close()
    assert ended.wait(60)
    assert [type(error) for error in errors] == [LoopClosedError]
    for task in waiting:
        # It was never to end; without this Python warns of it.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    pool.close(wait=True)
