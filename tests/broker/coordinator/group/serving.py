"""The handlers of requests about groups, in this process, with a count of the turns of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any
from uuid import UUID

from broker.api.context import Request
from broker.api.groups import consumer_groups, coordinators, group_offsets, groups
from broker.assembly import assemble
from broker.coordinator.group.coordinator_parts import LoadState
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import Committed
from broker.metadata.model import PartitionState, TopicState
from broker.metadata.operations import CreateTopic
from broker.replica.hosting.applier import ReplicaApplier
from tests.broker.coordinator.group.running import DEADLINE_S
from tests.broker.coordinator.support import Stored
from tests.support.in_process.asking import Client, request_of

TURNS = 10
MANY = 60
PARTITIONS = 30
AT_ONCE = 10
HANDLERS: dict[Any, Callable[[Request], Awaitable[None] | None]] = {
    **coordinators.HANDLERS,
    **group_offsets.HANDLERS,
    **groups.HANDLERS,
    **consumer_groups.HANDLERS,
}
NAMES = [f"n{number}" for number in range(MANY)]


class Serving:
    """The parts of a broker, without connections, with a topic `t` of `PARTITIONS` partitions."""

    def __init__(self, parts: Stored) -> None:
        self.parts = parts
        applier = ReplicaApplier(parts.replicas, parts.cache.topic_config)
        self.broker = assemble(parts.config, 0, parts.store, parts.cache, parts.replicas, applier)
        self.turns = 0

        async def prepare() -> None:
            partitions = tuple(PartitionState((0,), (0,), 0, 0) for _ in range(PARTITIONS))
            topic = TopicState("t", UUID(int=1), partitions, {})
            await parts.store.commit(lambda state: [CreateTopic(topic)])
            await self.broker.groups.ready()
            while any(each.state is LoadState.LOADING for each in self.broker.groups.all_partition_groups()):
                await asyncio.sleep(0.001)

        self.run(prepare())

    def run(self, work: Any) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(work, DEADLINE_S)

        return self.parts.loop.run_until_complete(bounded())

    async def ask(self, message: Any, version: int) -> Any:
        """The response to a request; `turns` counts the rounds of the loop that it takes."""
        request = request_of(self.broker, message, version, Client())
        counting = asyncio.ensure_future(self._count())
        await asyncio.sleep(0)
        self.turns = 0
        pending = HANDLERS[type(message)](request)
        if pending is not None:
            await pending
        counting.cancel()
        return request.response

    async def _count(self) -> None:
        while True:
            self.turns += 1
            await asyncio.sleep(0)

    def offsets(self, group: str = "g") -> set[int]:
        """The different offsets that a group has committed."""
        view = self.broker.groups.offsets_of(group)
        return {committed.offset for at in view.partitions() if (committed := view[at][0]) is not None}

    async def commit(self, offset: int, partitions: Iterable[int] = range(PARTITIONS)) -> None:
        """Commit this offset for partitions of `t`."""
        offsets = {("t", index): Committed(offset, -1, "", self.parts.now) for index in partitions}
        assert await self.broker.groups.commit("g", CommitRequest("", None, -1, 8), offsets) == {}
