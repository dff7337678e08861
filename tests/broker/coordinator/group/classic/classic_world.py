"""A classic group with its clients on a simulated clock: no sockets, no waiting, and crashes at will."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from broker.coordinator.group import records
from broker.coordinator.group.classic.classic_group import ClassicGroup, ClassicSettings
from broker.coordinator.group.classic.group_metadata import ClassicGroupState
from broker.coordinator.group.classic.requests import JoinRequest, JoinResult, Protocols, SyncRequest, SyncResult
from broker.coordinator.group.membership import Answer, Moment, Store
from broker.coordinator.state_log import StateRecord
from kafkalog.protocol.coordinator_records import GroupMetadataValue
from kafkalog.protocol.errors import ErrorCode

EPOCH_MS = 1_700_000_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
TICK_MS = 3_000
UNKNOWN = ErrorCode.UNKNOWN_MEMBER_ID
RANGE: Protocols = (("range", b"topics"),)


@dataclass
class Client:
    """A consumer: it joins, syncs and sends heartbeats, following the responses.

    Attributes:
        alive: it does anything at all.
        phase: `out`, `joining`, `syncing` or `stable`.
        lost: errors that told it that it is no member, in order.
    """

    name: str
    protocols: Protocols = RANGE
    instance_id: str | None = None
    id_first: bool = True
    alive: bool = True
    phase: str = "out"
    member_id: str = ""
    generation: int = -1
    assignment: bytes = b""
    joined: JoinResult | None = None
    lost: list[ErrorCode] = field(default_factory=list)
    token: int = -1


class World:
    """A group and its clients. The group's effects are carried out after each step, unless stores are held back."""

    def __init__(self, *, initial_delay_ms: int = 3000, max_size: int = 1000) -> None:
        self.settings = ClassicSettings(initial_delay_ms, max_size)
        self.ms = 0
        self.log: list[StateRecord] = []
        self.held: list[Store] | None = None
        """Stores that are held back."""
        self.clients: dict[str, Client] = {}
        self.answers: dict[int, JoinResult | SyncResult] = {}
        self._tokens = itertools.count()
        self._ids = itertools.count()
        self.generations: dict[int, set[str | None]] = {}
        """The protocols in join responses, by generation, since the last crash."""
        self.group = self._fresh()

    @property
    def now(self) -> Moment:
        return Moment(self.ms, EPOCH_MS + self.ms)

    def _fresh(self) -> ClassicGroup:
        return ClassicGroup("g", self.settings, self.new_id, self.now)

    def new_id(self, start: str) -> str:
        return f"{start}-{next(self._ids)}"

    # -- steps

    def join(self, name: str = "c", **fields: Any) -> int:
        """Send JoinGroup; return the token of the response."""
        token = next(self._tokens)
        values: dict[str, Any] = {
            "member_id": "",
            "instance_id": None,
            "client_id": name,
            "client_host": "/host",
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": REBALANCE_MS,
            "protocol_type": "consumer",
            "protocols": RANGE,
            **fields,
        }
        self.group.join(JoinRequest(**values), token, self.now)
        self.settle()
        return token

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **more: Any) -> int:
        """Send SyncGroup; return the token of the response."""
        token = next(self._tokens)
        values: dict[str, Any] = {"instance_id": None, "protocol_type": None, "protocol_name": None, **more}
        request = SyncRequest(
            member_id=member_id,
            generation=generation,
            assignments=assignments or {},
            **values,
        )
        self.group.sync(request, token, self.now)
        self.settle()
        return token

    def heartbeat(self, member_id: str, generation: int, instance_id: str | None = None) -> ErrorCode:
        error = self.group.heartbeat(member_id, instance_id, generation, self.now)
        self.settle()
        return error

    def leave(self, member_id: str, instance_id: str | None = None) -> ErrorCode:
        error = self.group.leave(member_id, instance_id, None, self.now)
        self.settle()
        return error

    def joined(self, token: int) -> JoinResult:
        """Return the response to a join, which must have arrived."""
        result = self.answers[token]
        assert isinstance(result, JoinResult)
        return result

    def synced(self, token: int) -> SyncResult:
        """Return the response to a sync, which must have arrived."""
        result = self.answers[token]
        assert isinstance(result, SyncResult)
        return result

    def settle(self) -> None:
        """Carry out the group's effects."""
        out = self.group.out
        while out:
            effect = out.pop(0)
            if isinstance(effect, Answer):
                assert effect.token not in self.answers, "answered twice"
                assert isinstance(effect.token, int)
                self.answers[effect.token] = effect.result
                self._tell(effect.token, effect.result)
            elif self.held is None:
                self._store(effect, None)
            else:
                self.held.append(effect)

    def finish_stores(self, error: ErrorCode | None = None) -> None:
        """Complete the stores that were held back, or let them fail."""
        held, self.held = self.held or [], None
        for effect in held:
            self._store(effect, error)
        self.settle()

    def _store(self, effect: Store, error: ErrorCode | None) -> None:
        if error is None:
            self.log += effect.records
        effect.done(error, self.now)

    def pass_time(self, ms: int, each_tick: Callable[[], None] = lambda: None) -> None:
        """Let time pass; wake the group at its deadlines."""
        end = self.ms + ms
        while self.ms < end:
            step = min(end, self.ms + TICK_MS)
            wake_at = self.group.wake_at
            self.ms = step if wake_at is None or wake_at > step else max(wake_at, self.ms)
            if wake_at is not None and wake_at <= self.ms:
                self.group.wake(self.now)
                self.settle()
                assert self.group.wake_at is None or self.group.wake_at > self.ms, "it would be woken for ever"
            if self.ms == step:
                each_tick()

    def crash(self) -> None:
        """Replace the coordinator by another, which loads the stored records. Open requests get no response."""
        self.held = None
        self.generations = {}
        value = self.log[-1].value if self.log else None
        if value is None:
            self.group = self._fresh()
        else:
            stored = records.decode_versioned(GroupMetadataValue, value)
            self.group = ClassicGroup.load("g", stored, self.settings, self.new_id, self.now)
            self.group.resume(self.now)
        for client in self.clients.values():
            if client.phase in ("joining", "syncing"):
                # Its request has failed: it asks again.
                client.phase = "out"
            client.token = -1
        self.settle()

    # -- clients

    def add(self, client: Client) -> Client:
        self.clients[client.name] = client
        self._join(client)
        return client

    def live(self) -> list[Client]:
        return [client for client in self.clients.values() if client.alive]

    def act(self, client: Client) -> None:
        """Let a client do its next action."""
        if client.phase == "out":
            self._join(client)
        elif client.phase == "stable":
            error = self.heartbeat(client.member_id, client.generation, client.instance_id)
            if error is ErrorCode.REBALANCE_IN_PROGRESS:
                self._join(client)
            elif error is not ErrorCode.NONE:
                self._lost(client, error)
                self._join(client)

    def run(self, ms: int) -> None:
        """Let time pass while living clients act."""

        def tick() -> None:
            for client in self.live():
                self.act(client)

        self.pass_time(ms, tick)

    def _join(self, client: Client) -> None:
        client.phase = "joining"
        client.token = upcoming = self._peek()
        token = self.join(
            client.name,
            member_id=client.member_id,
            instance_id=client.instance_id,
            protocols=client.protocols,
            require_known_id=client.id_first and client.instance_id is None,
        )
        assert token == upcoming

    def _sync(self, client: Client, result: JoinResult) -> None:
        client.phase = "syncing"
        client.token = self._peek()
        assignments = {member.member_id: b"for " + member.member_id.encode() for member in result.members}
        self.sync(client.member_id, client.generation, assignments, instance_id=client.instance_id)

    def _peek(self) -> int:
        upcoming = next(self._tokens)
        self._tokens = itertools.chain([upcoming], self._tokens)  # type: ignore[assignment]
        return upcoming

    def _tell(self, token: int, result: JoinResult | SyncResult) -> None:
        client = next((each for each in self.clients.values() if each.token == token and each.alive), None)
        if isinstance(result, JoinResult) and result.error is ErrorCode.NONE:
            self.generations.setdefault(result.generation, set()).add(result.protocol_name)
        if client is None:
            return
        client.token = -1
        if isinstance(result, JoinResult):
            if result.error is ErrorCode.MEMBER_ID_REQUIRED:
                client.member_id = result.member_id
                self._join(client)
            elif result.error is ErrorCode.NONE:
                client.member_id, client.generation, client.joined = result.member_id, result.generation, result
                self._sync(client, result)
            else:
                client.phase = "out"
                self._lost(client, result.error)
        elif result.error is ErrorCode.NONE:
            client.phase, client.assignment = "stable", result.assignment
        else:
            client.phase = "out"
            if result.error is not ErrorCode.REBALANCE_IN_PROGRESS:
                self._lost(client, result.error)

    def _lost(self, client: Client, error: ErrorCode) -> None:
        client.phase = "out"
        client.lost.append(error)
        if error is UNKNOWN:
            client.member_id = ""

    def is_settled(self) -> bool:
        """Tell whether exactly the living clients are in one generation, each with an assignment."""
        live = self.live()
        if not live:
            return self.group.state is ClassicGroupState.EMPTY
        return (
            self.group.state is ClassicGroupState.STABLE
            and {client.member_id for client in live} == {member.member_id for member in self.group.members}
            and all(client.phase == "stable" and client.generation == self.group.generation for client in live)
        )


def stored(world: World) -> GroupMetadataValue:
    """The group as it was stored last."""
    value = world.log[-1].value
    assert value is not None
    return records.decode_versioned(GroupMetadataValue, value)


def one_member(world: World, **fields: Any) -> JoinResult:
    """A group of one member, stable."""
    token = world.join(**fields)
    world.pass_time(world.settings.initial_rebalance_delay_ms)
    joined = world.joined(token)
    assert joined.error is ErrorCode.NONE
    instance = fields.get("instance_id")
    synced = world.sync(joined.member_id, joined.generation, {joined.member_id: b"all"}, instance_id=instance)
    assert world.synced(synced).assignment == b"all"
    return joined


def two_members(world: World, **fields: Any) -> tuple[JoinResult, JoinResult]:
    """A stable group of a leader and a follower."""
    tokens = [world.join("a", **fields), world.join("b", **fields)]
    world.pass_time(2 * world.settings.initial_rebalance_delay_ms)
    leader, follower = (world.joined(token) for token in tokens)
    waiting = world.sync(follower.member_id, follower.generation)
    assert waiting not in world.answers
    world.sync(leader.member_id, leader.generation, {leader.member_id: b"1", follower.member_id: b"2"})
    assert world.synced(waiting).assignment == b"2"
    return leader, follower
