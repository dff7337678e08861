"""Run the handlers of a broker in this process, over existing partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from uuid import UUID

from broker.api.context import Broker, Request
from broker.assembly import assemble
from broker.metadata.model import PartitionState, TopicState
from broker.metadata.operations import CreateTopic
from broker.replica.hosting.applier import ReplicaApplier
from tests.broker.coordinator.support import Stored
from tests.support.in_process.asking import Client, request_of
from tests.support.wire import batch

HERE = 30
TOPIC_ID = UUID(int=1)
DEADLINE_S = 60
RECORDS = bytes(batch([b"a record"]))


class Serving:
    """A broker without connections, with a topic `t` of `HERE` partitions.

    Attributes:
        turns: rounds of the loop, counted while something runs.
    """

    def __init__(self, parts: Stored, handlers: Mapping[Any, Callable[[Request], Awaitable[None] | None]]) -> None:
        self.parts = parts
        self._handlers = handlers
        self.loop = parts.loop
        applier = ReplicaApplier(parts.replicas, parts.cache.topic_config)
        self.broker: Broker = assemble(parts.config, 0, parts.store, parts.cache, parts.replicas, applier)
        one = PartitionState((0,), (0,), 0, 0)
        self.loop.run_until_complete(
            parts.store.commit(lambda state: [CreateTopic(TopicState("t", TOPIC_ID, (one,) * HERE, {}))])
        )
        config = parts.replicas.topic_config({})
        for index in range(HERE):
            parts.replicas.host_partition("t", index, TOPIC_ID, one, config, is_new=True)
        self.turns = 0

    def run(self, work: Any) -> Any:
        async def bounded() -> Any:
            counting = asyncio.ensure_future(self._count())
            try:
                return await asyncio.wait_for(work, DEADLINE_S)
            finally:
                counting.cancel()

        return self.loop.run_until_complete(bounded())

    async def _count(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    async def until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            await asyncio.sleep(0)

    async def ask(self, message: Any, version: int = 13, client: Client | None = None) -> Any:
        """Return the response to a request."""
        request = request_of(self.broker, message, version, client or Client())
        pending = self._handlers[type(message)](request)
        if pending is not None:
            await pending
        await self.until(lambda: hasattr(request, "response"))
        return request.response

    def begin(self, message: Any, version: int = 13, client: Client | None = None) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.ask(message, version, client))

    def append(self, index: int) -> None:
        partition = self.parts.replicas.get("t", index)
        assert partition is not None
        self.parts.replicas.append(partition, memoryview(bytearray(RECORDS)), len(RECORDS), 1, self.parts.now)

    @property
    def watched(self) -> int:
        return len(self.parts.replicas.fetch_purgatory)
