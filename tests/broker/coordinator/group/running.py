"""A group coordinator in this process, over its own logs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from broker.coordinator.group.classic.classic_groups import ClassicGroups
from broker.coordinator.group.classic.requests import JoinRequest, JoinResult, Leaver, SyncRequest
from broker.coordinator.group.coordinator_parts import LoadState
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import Committed
from broker.coordinator.group.service import GroupCoordinator
from broker.coordinator.transaction.markers import Marker, MarkerWriter
from kafkalog.protocol.errors import ErrorCode
from tests.broker.coordinator.group.classic.classic_world import RANGE, SESSION_MS
from tests.broker.coordinator.support import Stored

T0 = ("t", 0)
ANYBODY = CommitRequest("", None, -1, 8)
IN_TRANSACTION = CommitRequest("", None, -1, 3, transactional=True)
PRODUCER = (7, 0)
DEADLINE_S = 90.0


def at(offset: int, timestamp: int = 0) -> Committed:
    return Committed(offset, -1, "", timestamp)


class Running:
    """A coordinator over `parts`, whose groups do not wait for more members."""

    def __init__(self, parts: Stored) -> None:
        self.parts = parts
        self.groups = GroupCoordinator(replicas=parts.replicas, topics=parts.topics)
        self.classic = ClassicGroups(self.groups)
        self.markers = MarkerWriter(
            parts.replicas,
            lambda: parts.now,
            lambda marker, written: self.groups.on_marker(marker.producer_id, marker.committed, written),
        )

    def run(self, work: Coroutine[Any, Any, Any] | Awaitable[Any]) -> Any:
        async def bounded() -> Any:
            return await asyncio.wait_for(work, DEADLINE_S)

        return self.parts.loop.run_until_complete(bounded())

    def ready(self) -> None:
        """Wait until the topic exists and the groups of every partition are loaded."""

        async def work() -> None:
            await self.groups.ready()
            while any(each.state is LoadState.LOADING for each in self.groups.all_partition_groups()):
                await asyncio.sleep(0.001)

        self.run(work())

    def commit(self, group: str, offset: int, timestamp: int = 0) -> None:
        self.run(self.groups.commit(group, ANYBODY, {T0: at(offset, timestamp)}))

    def committed(self, group: str) -> int | None:
        found, _ = self.groups.offsets_of(group)[T0]
        return None if found is None else found.offset

    async def joined(self, group: str, **fields: Any) -> JoinResult:
        values: dict[str, Any] = {
            "member_id": "",
            "instance_id": None,
            "client_id": "c",
            "client_host": "/h",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": RANGE,
            **fields,
        }
        return await self.classic.join(group, JoinRequest(**values))

    async def member(self, group: str) -> JoinResult:
        """Join as the only member of a group; return the member when the group is stable."""
        joined = await self.joined(group)
        assignments = {joined.member_id: b"all"}
        synced = await self.classic.sync(
            group, SyncRequest(joined.member_id, None, joined.generation, None, None, assignments)
        )
        assert synced.error is ErrorCode.NONE
        return joined

    async def member_that_leaves(self, group: str) -> None:
        """Join and leave; the group is then empty and stored."""
        member = await self.member(group)
        assert await self.classic.leave(group, [Leaver(member.member_id)]) == [ErrorCode.NONE]

    async def mark(self, index: int, committed: bool) -> None:
        """End PRODUCER's transaction in a partition, as its coordinator does, without waiting for replicas."""
        self.markers.write("__consumer_offsets", index, Marker(*PRODUCER, committed, 0))

    def hold_replication(self) -> Callable[[], None]:
        """Let no write to partition 0 count as stored until the returned function is called."""
        partition = self.groups.log.leads(0)
        assert partition is not None
        partition.log.config = self.parts.config.log_config({"flush.messages": 1})
        flushes = self.parts.replicas.flushes
        begin, flushes.begin = flushes.begin, lambda partition: None  # type: ignore[method-assign]

        def release() -> None:
            flushes.begin = begin  # type: ignore[method-assign]
            begin(partition)

        return release


Start = Callable[..., Running]
"""A function that opens the directory with settings, again after each close."""
