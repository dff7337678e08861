"""Operations that wait: completion by notice, by deadline, by cancellation, and none of them twice."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Hashable

from broker.replica.purgatory import DelayedOperation, Purgatory


class Waits(DelayedOperation):
    """Complete once ``needed`` was noticed."""

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
