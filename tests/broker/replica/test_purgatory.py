"""Tests of waiting operations: each completes once, by an event, by its deadline or by cancellation."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Hashable
from itertools import pairwise

import pytest

from broker.replica.purgatory import ROUND_SECONDS, DelayedOperation, Purgatory


class Waits(DelayedOperation):
    """Complete once `needed` was noticed."""

    def __init__(self, needed: int) -> None:
        super().__init__()
        self.needed = needed
        self.ended: list[str] = []
        self.looked = 0
        self.done = asyncio.get_running_loop().create_future()

    def noticed(self, key: Hashable, amount: int) -> None:
        self.needed -= amount

    def try_complete(self) -> bool:
        self.looked += 1
        if self.needed > 0:
            return False
        self._end("complete")
        return True

    def expire(self) -> None:
        self._end("expired")

    def _end(self, how: str) -> None:
        self.ended.append(how)
        if not self.done.done():
            self.done.set_result(how)


class Slow(Waits):
    """One whose answer takes a while, by a clock that nothing else moves."""

    def __init__(self, clock: list[float]) -> None:
        super().__init__(1)
        self.clock = clock

    def _end(self, how: str) -> None:
        self.clock[0] += 0.6 * ROUND_SECONDS
        super()._end(how)


@pytest.mark.parametrize("how", ["complete", "expired"])
def test_operations_that_end_at_a_time_let_others_have_their_turn(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        clock = [loop.time()]
        monkeypatch.setattr(loop, "time", lambda: clock[0])
        purgatory = Purgatory(loop)
        operations = [Slow(clock) for _ in range(6)]
        for operation in operations:
            purgatory.watch(operation, ["t"], 1)
        rounds = [0]
        if how == "complete":
            purgatory.notify("t", 1)
        else:
            clock[0] += 1
        while rounds[-1] < len(operations):
            await asyncio.sleep(0)
            rounds.append(sum(operation.ended == [how] for operation in operations))
        assert max(after - before for before, after in pairwise(rounds)) == 2
        assert len(purgatory) == 0

    asyncio.run(main())


def test_a_change_during_a_long_check_is_noticed() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        purgatory = Purgatory(loop)
        first, second = Waits(1), Waits(1)

        class Notifies(Waits):
            def try_complete(self) -> bool:
                purgatory.notify("second", 1)
                return super().try_complete()

        purgatory.watch(Notifies(1), ["first"], 60)
        purgatory.watch(first, ["first"], 60)
        purgatory.watch(second, ["second"], 60)
        purgatory.notify("first", 1)
        assert await asyncio.wait_for(second.done, 10) == "complete"
        assert first.ended == ["complete"]

    asyncio.run(main())


def test_notices_add_up_and_a_burst_is_looked_at_once() -> None:
    async def main() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        operation = Waits(10)
        purgatory.watch(operation, [("t", 0), ("t", 1)], 60)
        for _ in range(9):
            purgatory.notify(("t", 0), 1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert operation.looked == 1
        assert operation.ended == []
        purgatory.notify(("t", 1), 1)
        assert await asyncio.wait_for(operation.done, 10) == "complete"
        purgatory.notify(("t", 1), 1)
        await asyncio.sleep(0)
        assert operation.ended == ["complete"]
        assert len(purgatory) == 0

    asyncio.run(main())


def test_deadlines_come_in_order_and_only_to_those_that_still_wait() -> None:
    async def main() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        late, early, cancelled, done = Waits(1), Waits(1), Waits(1), Waits(1)
        purgatory.watch(late, ["a"], 0.05)
        purgatory.watch(early, ["b"], 0.01)
        purgatory.watch(cancelled, ["c"], 0.001)
        purgatory.watch(done, ["d"], 0.02)
        cancelled.cancel()
        purgatory.notify("d", 1)
        assert await asyncio.wait_for(early.done, 10) == "expired"
        assert await asyncio.wait_for(late.done, 10) == "expired"
        assert cancelled.ended == []
        assert done.ended == ["complete"]
        assert len(purgatory) == 0

    asyncio.run(main())


def test_ended_operations_leave_nothing_behind() -> None:
    async def main() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        for _ in range(5000):
            operation = Waits(1)
            purgatory.watch(operation, ["k"], 3600)
            purgatory.notify("k", 1)
            await asyncio.sleep(0)
            assert operation.ended == ["complete"]
        assert len(purgatory) == 0
        assert not purgatory._watchers
        assert len(purgatory._deadlines) <= 1025

    asyncio.run(main())


def test_an_operation_on_many_partitions_is_looked_at_once_when_all_of_them_change() -> None:
    async def main() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        keys = [("t", index) for index in range(100)]
        operation, satisfied = Waits(1000), Waits(100)
        purgatory.watch(operation, keys, 60)
        purgatory.watch(satisfied, keys, 60)
        for key in keys:
            purgatory.notify(key, 1)
        assert await asyncio.wait_for(satisfied.done, 10) == "complete"
        assert (operation.looked, operation.needed) == (1, 900)
        assert (satisfied.looked, satisfied.ended) == (1, ["complete"])

    asyncio.run(main())


def test_what_has_ended_is_let_go_before_its_deadline() -> None:
    async def main() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        cancelled, completed = Waits(1), Waits(1)
        gone = [weakref.ref(operation.done) for operation in (cancelled, completed)]
        purgatory.watch(cancelled, ["a"], 86_400)
        purgatory.watch(completed, ["b"], 86_400)
        cancelled.cancel()
        purgatory.notify("b", 1)
        await completed.done
        del cancelled, completed
        await asyncio.sleep(0)
        gc.collect()
        assert [reference() for reference in gone] == [None, None]

    asyncio.run(main())


class Breaks(DelayedOperation):
    """Raises in one of its calls, and maybe when it is asked to fail, too."""

    def __init__(self, where: str, log: list[str]) -> None:
        super().__init__()
        self.where = where
        self.log = log
        self.done = asyncio.get_running_loop().create_future()

    def _call(self, name: str) -> None:
        self.log.append(name)
        if name in self.where.split():
            raise ValueError(name)

    def noticed(self, key: Hashable, amount: int) -> None:
        self._call("noticed")

    def try_complete(self) -> bool:
        self._call("try_complete")
        return False

    def expire(self) -> None:
        self._call("expire")

    def fail(self, error: Exception) -> None:
        self.done.set_result(error)
        self._call("fail")


@pytest.mark.parametrize("where", ["noticed", "try_complete", "noticed fail", "try_complete fail"])
def test_one_that_raises_is_removed_and_told_and_the_others_go_on(where: str, caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        calls: list[str] = []
        healthy = [Waits(1) for _ in range(8)]
        broken = Breaks(where, calls)
        for operation in [*healthy[:4], broken, *healthy[4:]]:
            purgatory.watch(operation, ["k"], 60)
        purgatory.notify("k", 1)
        for operation in healthy:
            assert await asyncio.wait_for(operation.done, 10) == "complete"
        assert isinstance(await asyncio.wait_for(broken.done, 10), ValueError)
        assert len(purgatory) == 0
        before = list(calls)
        purgatory.notify("k", 1)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert calls == before

    asyncio.run(main())
    assert "Breaks failed while it waited" in caplog.text
    assert "ValueError" in caplog.text


def test_one_whose_deadline_raises_keeps_no_other_deadline(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        purgatory = Purgatory(asyncio.get_running_loop())
        broken, due, later = Breaks("expire", []), Waits(1), Waits(1)
        purgatory.watch(broken, ["a"], 0)
        purgatory.watch(due, ["b"], 0)
        purgatory.watch(later, ["c"], 0.01)
        assert await asyncio.wait_for(due.done, 10) == "expired"
        assert await asyncio.wait_for(later.done, 10) == "expired"
        assert isinstance(broken.done.result(), ValueError)

    asyncio.run(main())
    assert "ValueError" in caplog.text
