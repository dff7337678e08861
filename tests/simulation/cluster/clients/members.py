"""Members of a classic consumer group: assignments, and offsets that are committed in a generation (I9, I12)."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from kafkalog.protocol.errors import ErrorCode, KafkaError
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.simulation.cluster.clients.client import FAILURES, GROUP, PAUSE_S, Client, check

TEAM = "team"
SESSION_MS, REBALANCE_MS = 6_000, 5_000
PATIENCE_S = 9.0
"""The time for which a member waits for the others."""
LEAVES = 0.03
"""The probability that a member leaves between two heartbeats, or is silent until its session has ended."""


@dataclass(slots=True)
class Team:
    """The common knowledge of the members.

    Args:
        topic: the topic that they share out.
        partitions: the number of its partitions.
        is_excused: whether a broker may not know the committed offsets.

    Attributes:
        sent: the assignments that leaders have sent, by generation and member.
        acknowledged, attempted: the largest offset of each partition that a coordinator has confirmed, and that was
            sent to one.
    """

    topic: str
    partitions: int
    is_excused: Callable[[int], bool]
    sent: dict[tuple[int, str], set[bytes]] = field(default_factory=lambda: defaultdict(set))
    acknowledged: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    attempted: dict[int, int] = field(default_factory=lambda: defaultdict(int))


class Member:
    """Joins the group again and again, and commits offsets of what it is assigned."""

    def __init__(self, client: Client, team: Team, ended: asyncio.Event) -> None:
        self.client = client
        self._team = team
        self._ended = ended
        self._id = ""
        self._generation = -1
        self._assigned: list[int] | None = None

    async def work(self) -> None:
        """Be a member until the end."""
        while not self._ended.is_set():
            if await self.step() and self.client.chance.random() < LEAVES:
                if self.client.chance.random() < 0.5:
                    await self._leave()
                else:
                    await asyncio.sleep(SESSION_MS / 1000 * 1.5)
            await self.client.pause(4 * PAUSE_S)

    async def step(self) -> bool:
        """Join if that is due, and show a sign of life; return whether everything was answered well."""
        try:
            if self._assigned is None:
                await self._join()
            await self._heartbeat()
            await self._commit()
        except FAILURES as error:
            if isinstance(error, KafkaError) and error.code in (
                ErrorCode.UNKNOWN_MEMBER_ID,
                ErrorCode.ILLEGAL_GENERATION,
                ErrorCode.REBALANCE_IN_PROGRESS,
            ):
                self._assigned = None
                if error.code is not ErrorCode.REBALANCE_IN_PROGRESS:
                    self._id = ""
            return False
        return True

    async def _join(self) -> None:
        coordinator = await self.client.coordinator(GROUP, TEAM)
        request = JoinGroupRequest(
            group_id=TEAM,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self._id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="ours", metadata=self.client.name.encode())],
        )
        joined = await self.client.ask(coordinator, request, 5, timeout=PATIENCE_S)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            request.member_id = joined.member_id
            joined = await self.client.ask(coordinator, request, 5, timeout=PATIENCE_S)
        check(joined.error_code)
        self._id, self._generation = joined.member_id, joined.generation_id
        shares: dict[str, bytes] = {}
        if joined.leader == joined.member_id:
            members = sorted(each.member_id for each in joined.members)
            for number, member in enumerate(members):
                shares[member] = json.dumps(list(range(number, self._team.partitions, len(members)))).encode()
                self._team.sent[self._generation, member].add(shares[member])
        synced = await self.client.ask(
            coordinator,
            SyncGroupRequest(
                group_id=TEAM,
                generation_id=self._generation,
                member_id=self._id,
                assignments=[SyncGroupRequestAssignment(member_id=each, assignment=shares[each]) for each in shares],
            ),
            3,
            timeout=PATIENCE_S,
        )
        check(synced.error_code)
        share = bytes(synced.assignment)
        if share not in self._team.sent[self._generation, self._id]:
            self.client.history.complaints.append(
                f"{self.client.name}: broker {coordinator} assigns {share!r} in generation {self._generation}, the "
                f"leader sent {self._team.sent[self._generation, self._id]} (I12)"
            )
        assigned: list[int] = json.loads(share)
        for index in assigned:
            await self._look(coordinator, index)
        self._assigned = assigned

    async def _heartbeat(self) -> None:
        coordinator = await self.client.coordinator(GROUP, TEAM)
        request = HeartbeatRequest(group_id=TEAM, generation_id=self._generation, member_id=self._id)
        check((await self.client.ask(coordinator, request, 3)).error_code)

    async def _commit(self) -> None:
        team = self._team
        for index in self._assigned or ():
            coordinator = await self.client.coordinator(GROUP, TEAM)
            offset = team.attempted[index] = team.attempted[index] + 1
            partition = OffsetCommitRequestPartition(partition_index=index, committed_offset=offset)
            request = OffsetCommitRequest(
                group_id=TEAM,
                generation_id_or_member_epoch=self._generation,
                member_id=self._id,
                topics=[OffsetCommitRequestTopic(name=team.topic, partitions=[partition])],
            )
            answer = await self.client.ask(coordinator, request, 7)
            check(answer.topics[0].partitions[0].error_code)
            team.acknowledged[index] = max(team.acknowledged[index], offset)
            self.client.history.done += 1

    async def _look(self, coordinator: int, index: int) -> None:
        """Fetch the committed offset. Offsets grow with each attempt, so those of former members are less."""
        team, before = self._team, self._team.acknowledged[index]
        wanted = OffsetFetchRequestTopics(name=team.topic, partition_indexes=[index])
        request = OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=TEAM, topics=[wanted])], require_stable=False
        )
        answer = (await self.client.ask(coordinator, request, 8)).groups[0]
        check(answer.error_code)
        check(answer.topics[0].partitions[0].error_code)
        found = max(answer.topics[0].partitions[0].committed_offset, 0)
        if not before <= found <= team.attempted[index] and not team.is_excused(coordinator):
            self.client.history.complaints.append(
                f"{self.client.name}: broker {coordinator} has the offset {found} of partition {index}, {before} was "
                "acknowledged (I9)"
            )

    async def _leave(self) -> None:
        try:
            coordinator = await self.client.coordinator(GROUP, TEAM)
            request = LeaveGroupRequest(group_id=TEAM, members=[MemberIdentity(member_id=self._id)])
            await self.client.ask(coordinator, request, 4)
        except FAILURES:
            pass
        self._id, self._assigned = "", None
