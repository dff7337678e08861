"""Tests of worker threads: work that waits for the event loop, and a system that allows no further thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from broker.system import workers
from broker.system.workers import LoopClosedError, NoThreadError, ThreadWorkers, start_thread

DEADLINE_S = 60.0


async def until_set(event: threading.Event) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not event.is_set():
            await asyncio.sleep(0.001)


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
        await until_set(begun)

    loop.run_until_complete(main())
    waiting = asyncio.all_tasks(loop)
    loop.close()
    assert ended.wait(DEADLINE_S)
    assert [type(error) for error in errors] == [LoopClosedError]
    for task in waiting:
        # It was never to end; without this Python warns of it.
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    pool.close(wait=True)


class ThreadLimit:
    """Let the system allow no further thread between `reach` and `lift`."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._patch = patch

    def reach(self) -> None:
        def fail(thread: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        self._patch.setattr(threading.Thread, "start", fail)

    def lift(self) -> None:
        self._patch.undo()


@pytest.fixture
def limit(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadLimit]:
    with monkeypatch.context() as patch:
        yield ThreadLimit(patch)


def test_work_waits_for_the_existing_threads(limit: ThreadLimit) -> None:
    async def main() -> None:
        pool = ThreadWorkers(2)
        begun, go_on = threading.Event(), threading.Event()

        def busy() -> None:
            begun.set()
            assert go_on.wait(DEADLINE_S)

        first = pool.run(busy)
        await until_set(begun)
        limit.reach()
        calls: list[int] = []
        second = pool.run(calls.append, 1)
        limit.lift()
        go_on.set()
        async with asyncio.timeout(DEADLINE_S):
            await asyncio.gather(first, second)
        assert calls == [1]
        pool.close(wait=True)

    asyncio.run(main())


def test_without_any_thread_only_that_work_fails(limit: ThreadLimit) -> None:
    async def main() -> None:
        pool = ThreadWorkers(2)
        limit.reach()
        calls: list[int] = []
        with pytest.raises(NoThreadError, match="ulimit -u"):
            await pool.run(calls.append, 1)
        with pytest.raises(NoThreadError):
            start_thread(threading.Thread(target=calls.append, args=(2,)))
        with pytest.raises(NoThreadError):
            pool.executor(1, "more").submit(calls.append, 3)
        limit.lift()
        await pool.run(calls.append, 4)
        assert calls == [4]
        pool.close(wait=True)

    asyncio.run(main())
