"""Serve large requests in turns and on few workers, so that they do not hold up the others.

- `Lanes` gives large requests a worker, one after the other, for what is decoded and encoded in one piece. Such work
  holds the interpreter's lock most of the time: two pieces at once would be no faster, and the event loop would wait
  for the lock behind both.
- `Turns` gives handlers their turns on the event loop.
- `FullCollections` keeps the garbage collector from walking all entries again and again.
- `release` frees many entries a few at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from broker.system.collector import Collector
from broker.system.workers import Workers
from kafkalog.protocol.schema import Struct

Result = TypeVar("Result")

MEDIUM = 4 << 20
"""Requests of up to this many bytes do not wait behind larger ones."""
TURN_SECONDS = 0.005
"""The time in which a handler serves entries before other requests get their turn."""
FIRST_SECONDS = 0.0005
"""The time of a handler's first turn while others wait for theirs: hundreds may begin between two looks."""
PUT_OFF_SECONDS = 60.0
"""The longest time that full collections are put off while large requests are under way."""
CHECKING_WORKERS = 2
"""The most workers that check batches at a time: a batch may expand to 128 MiB."""
RELEASED_AT_ONCE = 1000


class Lanes:
    """Workers for large requests: one for those up to `MEDIUM` bytes, one for larger ones."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._lanes = (asyncio.Lock(), asyncio.Lock())

    async def run(self, nbytes: int, work: Callable[[], Result]) -> Result:
        """Do `work` on a worker for a request of `nbytes`, after the requests that came before it in its lane."""
        async with self._lanes[nbytes > MEDIUM]:
            return await self._workers.run(work)


class Turns:
    """Handlers of many entries take turns, and one turn is taken between two looks at the connections.

    So a connection waits for one turn, however many large requests are under way.

    Args:
        seconds: the clock that turns are measured by.
    """

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.seconds = seconds
        self._lock = asyncio.Lock()

    @property
    def are_waited_for(self) -> bool:
        """Return whether a handler waits for its turn."""
        return self._lock.locked()

    async def end(self) -> None:
        """Return when it is this handler's turn again."""
        async with self._lock:
            await asyncio.sleep(0)


class Turn:
    """The turns of one request.

    Full collections are put off from the end of a turn on, until `close`.

    Attributes:
        ended: turns that have ended so far.
    """

    __slots__ = ("_began", "_collections", "_resume", "_seconds", "_turns", "ended")

    def __init__(self, turns: Turns, collections: FullCollections) -> None:
        self._turns = turns
        self._collections = collections
        self._resume: Callable[[], None] | None = None
        self._seconds = turns.seconds
        self._began = self._seconds()
        self.ended = 0

    @property
    def is_over(self) -> bool:
        is_short = not self.ended and self._turns.are_waited_for
        return self._seconds() - self._began > (FIRST_SECONDS if is_short else TURN_SECONDS)

    def begin(self) -> None:
        """Begin a turn, after the handler has waited for something other than its turn."""
        self._began = self._seconds()

    async def end(self) -> None:
        if self._resume is None:
            self._resume = self._collections.hold()
        self.ended += 1
        await self._turns.end()
        self.begin()

    def close(self) -> None:
        """Note that the request is served, or waits for something other than its turn."""
        resume, self._resume = self._resume, None
        if resume is not None:
            resume()


class FullCollections:
    """Puts off full garbage collections while large requests are served.

    One visits everything that is alive, which takes 0.2 s for 300,000 entries, and a large request would cause several.
    Entries of a message are no garbage that only the collector finds: they go by their reference counts. Collections of
    what was made lately go on meanwhile, so that others' garbage is found.
    """

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._working = 0
        self._since = 0.0

    @contextmanager
    def put_off(self) -> Iterator[None]:
        """Put them off while a large request is served, but not for ever: it may wait for something."""
        resume = self.hold()
        try:
            yield
        finally:
            resume()

    def hold(self) -> Callable[[], None]:
        """Put them off as `put_off` does, until the function that is returned is called."""
        loop = asyncio.get_running_loop()
        if not self._working:
            self._since = loop.time()
            self._collector.hold_full()
        elif loop.time() - self._since > PUT_OFF_SECONDS:
            # One large request follows the other.
            self._collector.collect()
            self._since = loop.time()
        self._working += 1
        held = True

        def resume() -> None:
            nonlocal held
            if held:
                held = False
                self._working -= 1
                if not self._working:
                    self._collector.resume_full()

        timer = loop.call_later(PUT_OFF_SECONDS, resume)

        def end() -> None:
            timer.cancel()
            resume()

        return end


def release(value: Any) -> None:
    """Free the entries of a message or a collection a few at a time.

    Freeing 300,000 entries at once takes 50 ms, during which no other thread runs. Call it on a worker; other
    references to the value find it empty.
    """
    if isinstance(value, Struct):
        for name in _array_fields(type(value)):
            release(getattr(value, name))
    elif isinstance(value, list):
        if value and isinstance(value[0], Struct) and _array_fields(type(value[0])):
            for entry in value:
                release(entry)
        release_entries(value)
    elif isinstance(value, dict):
        while value:
            value.popitem()
    elif isinstance(value, set):
        while value:
            value.pop()


def release_entries(entries: list[Any]) -> None:
    """Empty a list a few entries at a time, and leave alone what the entries hold: it may be in use elsewhere."""
    while entries:
        del entries[-RELEASED_AT_ONCE:]


def _array_fields(cls: type[Struct]) -> list[str]:
    return [field.name for field in cls.fields if field.is_array]
