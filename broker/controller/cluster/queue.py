"""The controller's queue: events that are carried out one after another, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Any

from broker.controller.cluster.model.effects import Decide
from kafkalog.protocol.errors import NotControllerError

ELECTION = "election"
NOT_ACTIVE = "This broker is not the controller."


@dataclass(slots=True)
class Item:
    """An event that waits for its turn."""

    name: str
    decide: Decide | None
    """The decision; None for the election of the controller."""
    answer: asyncio.Future[Any] | None = None
    """The future of the caller that waits for the result."""

    def settle(self, result: Any) -> None:
        """Give the result to the caller that waits for it, if there is one."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: Exception) -> None:
        """Give an error to the caller that waits for the result, if there is one."""
        if self.answer is not None and not self.answer.done():
            self.answer.set_exception(error)


class EventQueue:
    """See the module. Used on the event loop's thread only."""

    def __init__(self) -> None:
        self._items: deque[Item] = deque()
        self._named: set[str] = set()
        """The names of those that are queued once."""
        self._filled = asyncio.Event()

    def put(self, name: str, decide: Decide, answer: asyncio.Future[Any] | None = None) -> None:
        """Queue an event."""
        self._append(Item(name, decide, answer))

    def put_once(self, name: str, decide: Decide) -> None:
        """Queue an event that reads the present state, if it is not queued already."""
        if name not in self._named:
            self._named.add(name)
            self._append(Item(name, decide))

    def put_election(self) -> None:
        """Queue the election of the controller, if it is not queued already."""
        if ELECTION not in self._named:
            self._named.add(ELECTION)
            self._append(Item(ELECTION, None))

    async def take(self) -> Item:
        """Wait for the next event."""
        while not self._items:
            self._filled.clear()
            await self._filled.wait()
        item = self._items.popleft()
        self._named.discard(item.name)
        return item

    def clear(self) -> None:
        """Drop all events; callers that wait for one get NotControllerError."""
        waiting, self._items = self._items, deque()
        self._named.clear()
        for item in waiting:
            item.fail(NotControllerError(NOT_ACTIVE))

    def _append(self, item: Item) -> None:
        self._items.append(item)
        self._filled.set()
