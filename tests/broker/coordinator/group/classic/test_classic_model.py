"""Test classic groups with random members that join, leave, die and return, and coordinators that crash."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.coordinator.group.classic.group_metadata import ClassicGroupState
from kafkalog.protocol.errors import ErrorCode
from tests.broker.coordinator.group.classic.classic_world import RANGE, REBALANCE_MS, SESSION_MS, UNKNOWN, Client, World

NAMES = st.sampled_from([f"client-{number}" for number in range(5)])
PROTOCOLS = st.lists(st.sampled_from(["range", "roundrobin", "sticky"]), unique=True, max_size=2).map(
    # All know one in common, in changing places.
    lambda names: tuple((name, b"topics") for name in [*names, "common"])
)
LONG_MS = 4 * REBALANCE_MS


class ClassicMachine(RuleBasedStateMachine):
    """Everybody who lives keeps at it; who is killed says nothing more.

    Either members speak several protocols, or coordinators crash: of those that it did not select, a group remembers
    none, and members that know only others are refused until all have joined again.
    """

    @initialize(crashes=st.booleans())
    def kind(self, crashes: bool) -> None:
        self.may_crash = crashes

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.crashed = False
        self.may_crash = False

    @rule(name=NAMES, protocols=PROTOCOLS, static=st.booleans(), id_first=st.booleans())
    def comes(self, name: str, protocols: tuple[tuple[str, bytes], ...], static: bool, id_first: bool) -> None:
        old = self.world.clients.get(name)
        if old is not None and old.alive:
            return
        instance = f"static-{name}" if static else None
        if old is not None and old.instance_id is not None:
            # The same one is started again: it does not know its member id.
            instance = old.instance_id
        self.world.add(Client(name, RANGE if self.may_crash else protocols, instance, id_first))

    @rule(name=NAMES)
    def dies(self, name: str) -> None:
        client = self.world.clients.get(name)
        if client is not None:
            client.alive = False

    @rule(name=NAMES)
    def leaves(self, name: str) -> None:
        client = self.world.clients.get(name)
        if client is not None and client.alive and client.member_id:
            client.alive = False
            assert self.world.leave(client.member_id, client.instance_id) in (ErrorCode.NONE, UNKNOWN)

    @rule(name=NAMES, protocols=PROTOCOLS)
    def changes(self, name: str, protocols: tuple[tuple[str, bytes], ...]) -> None:
        client = self.world.clients.get(name)
        if client is not None and client.alive and client.phase == "stable":
            client.protocols = (("range", b"other topics"),) if self.may_crash else protocols
            client.phase = "out"

    @rule(ms=st.integers(100, SESSION_MS))
    def time_passes(self, ms: int) -> None:
        self.world.run(ms)

    @rule()
    def stores_are_slow(self) -> None:
        if self.world.held is None:
            self.world.held = []

    @rule(error=st.sampled_from([None, None, ErrorCode.COORDINATOR_NOT_AVAILABLE]))
    def stores_end(self, error: ErrorCode | None) -> None:
        self.world.finish_stores(error)

    @rule()
    def crashes(self) -> None:
        if self.may_crash:
            self.crashed = True
            self.world.crash()

    @rule()
    def everything_settles(self) -> None:
        """Left alone, the group comes to rest with exactly those who live."""
        self.world.finish_stores()
        self.world.run(LONG_MS)
        assert self.world.is_settled(), (self.world.group.state, self.world.live())
        for client in self.world.live():
            assert client.assignment == b"for " + client.member_id.encode() or client.joined is not None
        self._stays_at_rest()

    def _stays_at_rest(self) -> None:
        generation = self.world.group.generation
        for client in self.world.live():
            client.lost.clear()
        self.world.run(5 * SESSION_MS)
        assert self.world.group.generation == generation
        assert all(not client.lost for client in self.world.live())
        self.crashed = False

    @invariant()
    def members_of_a_generation_share_one_protocol(self) -> None:
        assert all(len(protocols) == 1 for protocols in self.world.generations.values())

    @invariant()
    def who_sends_heartbeats_is_not_lost(self) -> None:
        if self.crashed:
            return
        for client in self.world.live():
            # FENCED: the same static member was started twice, and this one is the older.
            assert UNKNOWN not in client.lost, (client, self.world.group.state)

    @invariant()
    def bookkeeping_is_right(self) -> None:
        group = self.world.group
        members = list(group.members)
        assert group.members.joining == sum(member.awaiting_join is not None for member in members)
        assert set(group.members.static.values()) == {m.member_id for m in members if m.instance_id is not None}
        assert group.members.leader is None or group.members.leader in group.members
        assert bool(members) == (group.members.leader is not None)
        if group.state is ClassicGroupState.EMPTY:
            assert not members
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            assert all(any(name == group.protocol_name for name, _ in member.protocols) for member in members)
        for member in members:
            waits = member.awaiting_join is not None or member.awaiting_sync is not None
            assert member.deadline is not None or waits, "nobody would ever notice its death"


ClassicMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestClassicMachine = pytest.mark.timeout(300)(ClassicMachine.TestCase)
