"""Fetches of many partitions: other requests have their turn in between.

Each partition is read in one turn and so is consistent in itself; of each other partitions know nothing anyhow. What is
read is a partition as it is in that turn: it may have been deleted or have lost its leader since the request came, and
then the response says so. A slice that was read keeps its file open, though the log may be truncated or deleted before
it is sent.

A session is found by no other request while this one is taken into it (`FetchSessionCache.steps`). Later it may be: the
request goes on with its own list of partitions, and a session that has ended meanwhile is written to in vain.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Iterator
from itertools import islice
from typing import Any, TypeVar

from broker.api.context import Request
from broker.api.errors import ClientGoneError
from broker.api.fetch.fetch_partition import FetchPartitionState
from broker.api.fetch.fetch_reading import READ_IN_STEPS, FetchReading, ResponseTopics, read_in, refuse
from broker.api.fetch.fetch_session import TOPIC_ID_VERSION, FetchContext
from broker.api.fetch.fetch_waiting import WaitingFetch
from broker.api.large import release
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import FetchRequest

AT_ONCE = 100
"""Partitions that are read, or put into the response, before the turn may end."""

Item = TypeVar("Item")
Result = TypeVar("Result")


async def fetch_in_turns(request: Request) -> None:
    """Serve a fetch of many partitions."""
    fetch = _FetchInTurns(request)
    try:
        await fetch.serve()
    finally:
        if fetch.took_turns:
            await request.broker.workers.run(_release_each, fetch.made)


def _release_each(values: list[list[Any]]) -> None:
    for value in values:
        release(value)


class _FetchInTurns:
    """One such fetch.

    Attributes:
        made: lists that take long to free, to be released at the end.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._turn = request.take_turns()
        self.made: list[list[Any]] = []

    @property
    def took_turns(self) -> bool:
        """Return whether the request had so many entries that one turn was not enough."""
        return self._turn.ended > 0

    async def serve(self) -> None:
        """Read, and answer once enough was read, or after a wait."""
        context = await self._in_turns(self._context())
        self.made.append(context.partitions)
        if context.error is not ErrorCode.NONE:
            refuse(self._request, context.error)
            return
        reading = FetchReading(self._request, context)
        watch = self._watch(reading)
        try:
            await self._read(reading)
            while watch is not None and not await self._is_enough(reading) and not watch.is_over:
                self._turn.close()
                await watch.next(reading.min_bytes - reading.nbytes)
                await self._request.broker.workers.run(release, reading.results)
                self._go_on()
                reading.begin_again()
                await self._read(reading)
        finally:
            if watch is not None:
                watch.cancel()
            self.made.append(reading.results)
        await self._respond(reading)

    def _context(self) -> Generator[None, None, FetchContext]:
        request, broker = self._request, self._request.broker
        names = broker.metadata.names_by_id() if request.version >= TOPIC_ID_VERSION else {}
        return broker.fetch_sessions.steps(request.version, request.message, names, broker.loop.time())

    # -- turns

    def _go_on(self) -> None:
        """Begin a turn after a wait.

        Raises:
            ClientGoneError: the client has disconnected meanwhile.
        """
        self._turn.begin()
        if self._request.connection.closed:
            raise ClientGoneError

    async def _end_turn(self) -> None:
        await self._turn.end()
        if self._request.connection.closed:
            raise ClientGoneError

    async def _in_turns(self, steps: Generator[None, None, Result]) -> Result:
        try:
            while True:
                next(steps)
                if self._turn.is_over:
                    await self._end_turn()
        except StopIteration as end:
            result: Result = end.value
            return result
        finally:
            steps.close()

    # -- reading

    async def _read(self, reading: FetchReading) -> None:
        for states in _pieces(reading.context.partitions):
            await self._read_in(reading, states)
            reading.read(states)
            if self._turn.is_over:
                await self._end_turn()

    async def _read_in(self, reading: FetchReading, states: list[FetchPartitionState]) -> None:
        """Have a worker read the pages that are not in memory, so that other requests do not wait for the disk."""
        for _ in range(READ_IN_STEPS):
            missing = reading.missing(states)
            if not missing:
                return
            try:
                await self._request.broker.workers.run(read_in, missing)
            except OSError:
                # The read gets the same error, and answers it for the one partition.
                return
            self._go_on()

    async def _is_enough(self, reading: FetchReading) -> bool:
        """Return whether enough was read to answer before the wait is over."""
        if reading.failed or reading.has_enough:
            return True
        if reading.nbytes:
            for states in _pieces(reading.context.partitions):
                if reading.is_behind(states):
                    return True
                if self._turn.is_over:
                    await self._end_turn()
        return False

    def _watch(self, reading: FetchReading) -> _Watch | None:
        """Watch the partitions from before the first read on, so that no append is missed; None without a wait.

        A fetch of more partitions than exist fails for some of them, and does not wait. So the number of watched
        partitions is at most the broker's.
        """
        replicas = self._request.broker.replicas
        message: FetchRequest = self._request.message
        partitions, session = reading.context.partitions, reading.context.session
        if message.max_wait_ms <= 0 or len(partitions) > len(replicas) or not (partitions or session):
            return None
        watch = _Watch(reading)
        self._request.connection.state = watch
        replicas.fetch_purgatory.watch(watch, watch.keys, message.max_wait_ms / 1000)
        return watch

    # -- answering

    async def _respond(self, reading: FetchReading) -> None:
        if reading.hold_back():
            return
        if reading.needs_conversion:
            await self._convert(reading)
        topics: ResponseTopics = {}
        pairs = zip(_pieces(reading.context.partitions), _pieces(reading.results), strict=True)
        for states, results in pairs:
            reading.add_results(topics, states, results)
            if self._turn.is_over:
                await self._end_turn()
        # The results are freed before the response is sent: they hold open files, which the next fetch may need.
        await self._request.answer(reading.response(topics), topics, reading.results, wait_ms=0)

    async def _convert(self, reading: FetchReading) -> None:
        done = _Done()
        self._request.connection.state = done
        reading.convert(done.set)
        await done.wait()
        self._go_on()


def _pieces(items: Iterable[Item]) -> Iterator[list[Item]]:
    rest = iter(items)
    while piece := list(islice(rest, AT_ONCE)):
        yield piece


class _Done:
    """The result that a fetch waits for, or the end of the connection."""

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def set(self) -> None:
        if not self._waiter.done():
            self._waiter.set_result(None)

    def cancel(self) -> None:
        """Wake the fetch, so that it notices that its client is gone."""
        self.set()

    async def wait(self) -> None:
        await self._waiter


class _Watch(WaitingFetch):
    """Wakes a fetch when its partitions have changed so much that it should read again.

    Attributes:
        is_over: whether the wait is over.
    """

    __slots__ = ("_done", "_wanted", "is_over")

    def __init__(self, reading: FetchReading) -> None:
        super().__init__(reading)
        self._done: Callable[[], None] | None = None
        self._wanted = 0
        self.is_over = False

    async def next(self, wanted: int) -> None:
        """Wait until so many bytes were added since the last wait, or the time is over."""
        done = _Done()
        self._wanted, self._done = wanted, done.set
        if not self.is_over and not self.is_due(wanted):
            await done.wait()
        self._done = None
        self.begin_again()

    def try_complete(self) -> bool:
        """Wake the fetch, which ends this watch itself."""
        self.is_over |= self.is_called
        if self.is_over or self.is_due(self._wanted):
            self._wake()
        return False

    def expire(self) -> None:
        self.is_over = True
        self._wake()

    def fail(self, error: Exception) -> None:
        self.is_over = True
        self._reading.request.drop()
        self._wake()

    def cancel(self) -> None:
        super().cancel()
        self.is_over = True
        self._wake()

    def _wake(self) -> None:
        if self._done is not None:
            self._done()
