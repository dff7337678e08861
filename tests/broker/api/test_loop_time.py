"""Test that the time of a request's steps is counted, on a clock that the test sets."""

from __future__ import annotations

import asyncio
import inspect

import pytest

from broker.api.loop_time import LoopTime, counted


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_the_time_of_the_steps_counts_and_that_of_the_waits_does_not() -> None:
    clock = Clock()

    async def main() -> None:
        time = LoopTime(0.0, clock)
        time.pause()
        waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def work() -> None:
            clock.now += 1
            await waiting
            clock.now += 2

        served = counted(work(), time)
        # Tasks of Python 3.12 and later take nothing else.
        assert inspect.iscoroutine(served)
        task = asyncio.get_running_loop().create_task(served)
        await asyncio.sleep(0)
        clock.now += 100
        waiting.set_result(None)
        await task
        assert time.seconds == 3

    asyncio.run(main())


def test_a_cancellation_reaches_the_work() -> None:
    clock = Clock()
    seen = list[str]()

    async def main() -> None:
        async def work() -> None:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        task = asyncio.get_running_loop().create_task(counted(work(), LoopTime(0.0, clock)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert seen == ["cancelled"]
