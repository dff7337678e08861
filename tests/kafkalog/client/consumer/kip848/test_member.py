"""Tests of a member's state in the consumer protocol: alone, and with the coordinator's own state machine."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkalog.client.consumer.group.generation import NO_GENERATION, Next
from kafkalog.client.consumer.kip848.member import (
    NOTHING,
    Beat,
    Member,
    Partitions,
    Reconciliation,
    Settings,
    State,
    TopicIdPartition,
    Wanted,
    topic_partitions,
)
from kafkalog.protocol.errors import (
    ErrorCode,
    FencedInstanceIdError,
    FencedMemberEpochError,
    KafkaError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)
from kafkalog.protocol.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from tests.broker.coordinator.group.kip848.support import Coordinator, FakeTopics

TOPIC = UUID(int=7)
OTHER = UUID(int=8)
KNOWN = {TOPIC}
BOTH = Wanted(frozenset({"a", "b"}))


def made(**given: object) -> Member:
    given = {"group_id": "g", "rebalance_timeout": 30.0, **given}
    return Member(Settings(**given), "m", polled=100.0)  # type: ignore[arg-type]


def partitions(*numbers: int, topic: UUID = TOPIC) -> Partitions:
    return frozenset(TopicIdPartition(topic, number) for number in numbers)


def answer(epoch: int, assigned: Partitions | None = None, interval_ms: int = 5000) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=interval_ms,
        assignment=None if assigned is None else Assignment(topic_partitions=topic_partitions(assigned)),
    )


def step(member: Member, epoch: int, assigned: Partitions | None = None, now: float = 100.0) -> Beat:
    """A heartbeat that is due, and its answer."""
    assert member.due(now) == 0
    beat = member.beat(now)
    member.answered(beat, answer(epoch, assigned))
    return beat


def take(member: Member) -> Reconciliation:
    plan = member.plan(KNOWN)
    assert plan is not None
    assert member.reconciled(plan)
    return plan


def stable(**given: object) -> Member:
    """A member of epoch 1 that has partitions 0 and 1."""
    member = made(**given)
    member.want(BOTH)
    step(member, 1, partitions(0, 1))
    take(member)
    step(member, 1)
    assert member.state is State.STABLE
    return member


def test_joining_and_acknowledging() -> None:
    member = made(rack_id="r", assignor="range")
    assert (member.state, member.due(100.0), member.generation) == (State.OUTSIDE, float("inf"), NO_GENERATION)
    assert member.want(BOTH)
    assert not member.want(BOTH)
    joining = step(member, 1, partitions(0, 1)).request
    assert (joining.member_id, joining.member_epoch, joining.topic_partitions) == ("m", 0, [])
    assert (joining.subscribed_topic_names, joining.subscribed_topic_regex) == (["a", "b"], None)
    assert (joining.rebalance_timeout_ms, joining.rack_id, joining.server_assignor) == (30_000, "r", "range")
    assert (member.state, member.generation.id) == (State.RECONCILING, 1)
    plan = take(member)
    assert (plan.assigned, plan.revoked) == (partitions(0, 1), NOTHING)
    told = step(member, 1).request
    assert told.topic_partitions == topic_partitions(partitions(0, 1))
    assert (told.subscribed_topic_names, told.rebalance_timeout_ms, told.server_assignor) == (None, -1, None)
    assert member.state is State.STABLE
    assert member.due(102.0) == 3.0, "the interval that the coordinator gives"
    quiet = step(member, 1, now=105.0).request
    assert (quiet.topic_partitions, quiet.subscribed_topic_names, quiet.member_epoch) == (None, None, 1)


def test_what_is_given_up_is_told_before_others_have_it() -> None:
    member = stable()
    step(member, 2, partitions(1, 2), now=105.0)
    plan = member.plan(KNOWN)
    assert plan == Reconciliation(partitions(1, 2), partitions(0), member.incarnation)
    assert member.due(105.0) == 5.0, "heartbeats go on meanwhile, saying nothing new"
    assert step(member, 2, now=110.0).request.topic_partitions is None
    assert plan is not None
    assert member.reconciled(plan)
    assert member.due(110.0) == 0
    # The next assignment comes with the answer.
    assert step(member, 2, partitions(1), now=110.0).request.topic_partitions == topic_partitions(partitions(1, 2))
    assert member.state is State.RECONCILING
    assert take(member).revoked == partitions(2)


def test_topics_that_nobody_can_name_yet_wait() -> None:
    member = made()
    member.want(BOTH)
    step(member, 1, partitions(0, topic=OTHER))
    assert member.plan(KNOWN) is None
    assert member.unknown(KNOWN)
    member.answered(
        Beat(member.beat(105.0).request, member.incarnation), answer(1, partitions(0, topic=OTHER) | partitions(0))
    )
    assert take(member).assigned == partitions(0)
    step(member, 1, now=105.0)
    assert (member.state, member.plan(KNOWN)) == (State.RECONCILING, None)
    plan = member.plan({TOPIC, OTHER})
    assert plan is not None
    assert plan.assigned == partitions(0, topic=OTHER) | partitions(0)


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_fenced_member_begins_anew(code: ErrorCode) -> None:
    member = stable()
    before = member.generation
    step(member, 2, partitions(1), now=105.0)
    plan = member.plan(KNOWN)
    assert plan is not None
    assert member.refused(member.beat(110.0), code, None, 110.0) is Next.REJOIN
    assert (member.state, member.has_lost, member.generation) == (State.FENCED, True, NO_GENERATION)
    assert member.due(110.0) == float("inf"), "the application is to be told first"
    assert not member.reconciled(plan), "what it was about to take is others'"
    member.released()
    joining = step(member, 5, partitions(3), now=110.0).request
    assert (joining.member_id, joining.member_epoch, joining.topic_partitions) == ("m", 0, [])
    assert joining.subscribed_topic_names == ["a", "b"]
    assert take(member).assigned == partitions(3)
    assert member.generation.incarnation > before.incarnation


def test_after_an_error_everything_is_said_again() -> None:
    member = stable()
    beat = member.beat(105.0)
    member.failed(beat, 105.0)
    assert member.due(105.0) == pytest.approx(0.1, rel=0.21)
    again = member.beat(105.2)
    assert again.request.topic_partitions == topic_partitions(partitions(0, 1))
    assert (again.request.subscribed_topic_names, again.request.rebalance_timeout_ms) == (["a", "b"], 30_000)
    for code, todo in (
        (ErrorCode.NOT_COORDINATOR, Next.FIND),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Next.FIND),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Next.BACK_OFF),
    ):
        assert member.refused(again, code, None, 106.0) is todo
        again = member.beat(108.0)
    assert member.due(108.0) == float("inf"), "one heartbeat at a time"
    member.answered(again, answer(1, partitions(0, 1)))
    assert member.state is State.STABLE


def test_who_is_not_polled_leaves_until_it_is() -> None:
    member = stable(instance_id="i")
    step(member, 1, now=105.0)
    member.polled = 104.0
    assert member.due(133.9) == 0
    assert member.due(105.0) == 5.0
    step(member, 1, now=133.9)
    assert member.due(133.95) == pytest.approx(0.05)
    last = member.beat(134.0)
    assert (last.is_last, last.request.member_epoch, last.request.instance_id) == (True, -2, "i")
    assert (member.state, member.has_lost, member.due(200.0)) == (State.STALE, True, float("inf"))
    member.polled = 200.0
    member.released()
    assert member.beat(200.0).request.member_epoch == 0


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_leaving(instance: str | None, epoch: int) -> None:
    member = stable(instance_id=instance)
    late = member.beat(105.0)
    request = member.leave()
    assert request is not None
    assert (request.member_id, request.member_epoch, request.instance_id) == ("m", epoch, instance)
    assert (member.state, member.generation, member.due(105.0)) == (State.OUTSIDE, NO_GENERATION, float("inf"))
    member.answered(late, answer(9, partitions(5)))
    member.refused(late, ErrorCode.UNKNOWN_MEMBER_ID, None, 105.0)
    member.failed(late, 105.0)
    assert (member.state, member.target) == (State.OUTSIDE, None)
    assert member.leave() is None
    member.want(BOTH)
    assert member.leave() is None, "nothing was sent"
    member.want(BOTH)
    member.beat(106.0)
    assert member.leave() is not None, "perhaps the coordinator has taken it in"


@pytest.mark.parametrize(
    ("code", "kind", "fenced"),
    [
        (ErrorCode.UNRELEASED_INSTANCE_ID, UnreleasedInstanceIdError, False),
        (ErrorCode.FENCED_INSTANCE_ID, FencedInstanceIdError, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, KafkaError, False),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, KafkaError, False),
    ],
)
def test_what_no_heartbeat_mends(code: ErrorCode, kind: type[Exception], fenced: bool) -> None:
    member = made(instance_id="i")
    member.want(BOTH)
    assert member.refused(member.beat(100.0), code, "so it is", 100.0) is Next.FAIL
    assert (member.state, member.due(200.0), member.fenced) == (State.FATAL, float("inf"), fenced)
    assert isinstance(member.failure, kind)
    assert "group g: so it is" in str(member.failure)
    assert not member.has_lost
    assert member.leave() is None
    assert member.failure is None
    member.want(BOTH)
    assert member.due(200.0) == 0


@pytest.mark.parametrize(
    ("wanted", "named"),
    [
        (Wanted(frozenset({"a"})), "topic a: The principal"),
        (BOTH, "topic a, or another one of the subscription: The principal"),
        (Wanted(frozenset({"a"}), "b.*"), "topic a, or another one of the subscription: The principal"),
        (Wanted(frozenset(), "b.*"), "a topic of the pattern b.*: The principal"),
    ],
)
def test_a_topic_without_a_right_is_named(wanted: Wanted, named: str) -> None:
    member = made()
    member.want(wanted)
    assert member.refused(member.beat(100.0), ErrorCode.TOPIC_AUTHORIZATION_FAILED, None, 100.0) is Next.FAIL
    assert f"group g: {named}" in str(member.failure)


def test_subscriptions_that_change() -> None:
    member = stable()
    assert member.want(Wanted(frozenset(), "a.*"))
    told = step(member, 1, now=101.0).request
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == ([], "a.*")
    member.want(BOTH)
    told = step(member, 1, now=102.0).request
    assert (told.subscribed_topic_names, told.subscribed_topic_regex) == (["a", "b"], "")
    assert member.due(102.0) == 5.0


def test_refused_commits() -> None:
    member = stable()
    mine = member.generation
    assert member.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, mine), "it may succeed under the next epoch"
    assert member.due(101.0) == 0, "which a heartbeat asks for"
    step(member, 2, now=101.0)
    assert member.generation != mine
    assert member.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, mine)
    assert not member.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, member.generation)
    member.refused(member.beat(102.0), ErrorCode.UNKNOWN_MEMBER_ID, None, 102.0)
    assert not member.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, mine)
    assert not member.commit_fenced(mine)


# Against the coordinator's state machine


Reply = ConsumerGroupHeartbeatResponse | KafkaError | None


class Client:
    """A consumer: its member, and what its application reads."""

    def __init__(self, member_id: str) -> None:
        self.member = Member(Settings("g", 1e6), member_id)
        self.reads: Partitions = NOTHING
        self.plan: Reconciliation | None = None
        self.answers: list[tuple[Beat, Reply]] = []

    def poll(self, coordinator: Coordinator, wanted: Wanted, *, halfway: bool = False) -> None:
        """One poll of the application; `halfway` through a reconciliation it stops."""
        member = self.member
        if member.has_lost:
            self.reads, self.plan = NOTHING, None
            member.released()
        member.want(wanted)
        if self.plan is None:
            self.plan = member.plan({topic.topic_id for topic in coordinator.topics.by_name.values()})
        if self.plan is None:
            return
        if self.plan.incarnation == member.incarnation:
            self.reads -= self.plan.revoked
            if halfway:
                return
            self.reads = self.plan.assigned
            member.reconciled(self.plan)
        self.plan = None


WANTS = [Wanted(frozenset(names)) for names in (("t0",), ("t1",), ("t0", "t1"), ())]


class GroupOfMembers:
    """Three members, a coordinator, and a network that loses requests and answers."""

    def __init__(self, assignor: str) -> None:
        self.now = 1000.0
        self.coordinator = Coordinator(FakeTopics(4, 3), assignors=(assignor,))
        self.clients = [Client(f"m{number}") for number in range(3)]
        self.wanted = [BOTH_TOPICS] * 3
        self.made = 3

    def send(self, client: Client, *, lost: bool = False) -> None:
        """A heartbeat that is due; its answer waits."""
        member = client.member
        if member.due(self.now) > 0:
            return
        beat = member.beat(self.now)
        reply: Reply = None
        if not lost:
            try:
                reply = self.coordinator.request(beat.request)
            except (FencedMemberEpochError, UnknownMemberIdError) as error:
                reply = error
        client.answers.append((beat, reply))

    def deliver(self, client: Client, *, lost: bool = False) -> None:
        """The oldest answer that waits."""
        if not client.answers:
            return
        beat, reply = client.answers.pop(0)
        if reply is None or lost:
            client.member.failed(beat, self.now)
        elif isinstance(reply, KafkaError):
            client.member.refused(beat, reply.code, reply.message, self.now)
        else:
            client.member.answered(beat, reply)

    # What happens, to a client by its number, one way or the other

    def round(self, number: int, settled: bool) -> None:
        """Do one round of a client for which all is well: poll, send, get the answer."""
        client = self.clients[number]
        client.poll(self.coordinator, self.wanted[number])
        self.send(client)
        self.deliver(client)

    def poll(self, number: int, halfway: bool) -> None:
        self.clients[number].poll(self.coordinator, self.wanted[number], halfway=halfway)

    def heartbeat(self, number: int, lost: bool) -> None:
        self.send(self.clients[number], lost=lost)

    def answer(self, number: int, lost: bool) -> None:
        self.deliver(self.clients[number], lost=lost)

    def time_passes(self, number: int, _: bool) -> None:
        seconds = (0.05, 1.0, 6.0)[number]
        self.now += seconds
        self.coordinator.now_ms += round(seconds * 1000)

    def subscribe(self, number: int, back: bool) -> None:
        self.wanted[number] = BOTH_TOPICS if back else WANTS[number]

    def session_ends(self, number: int, _: bool) -> None:
        member_id = self.clients[number].member.member_id
        if member_id in self.coordinator.group.members:
            self.coordinator.fence(member_id)

    def leave_and_begin_again(self, number: int, reaches: bool) -> None:
        client = self.clients[number]
        client.reads, client.plan = NOTHING, None
        request = client.member.leave()
        if request is not None and reaches:
            with contextlib.suppress(UnknownMemberIdError):
                self.coordinator.request(request)

    def crash(self, number: int, _: bool) -> None:
        self.clients[number] = Client(f"m{self.made}")
        self.made += 1

    def more_partitions(self, number: int, _: bool) -> None:
        topic = ("t0", "t1", "t1")[number]
        self.coordinator.topics.put(topic, min(self.coordinator.topics.by_name[topic].partitions + 1, 8))

    # What holds

    def check(self) -> None:
        """Nobody reads what another member reads, but for those that were fenced and have not heard of it; and what an
        application reads is what its member says that it has."""
        seen: Partitions = NOTHING
        for client in self.clients:
            if not client.member.generation.valid:
                continue
            if client.member.member_id in self.coordinator.group.members:
                assert not seen & client.reads
                seen |= client.reads
            if client.plan is None:
                assert client.reads == (client.member.current or NOTHING)

    def settle(self) -> None:
        """Once nothing is lost any more everything is read by exactly one of those that want it."""
        mine = {client.member.member_id for client in self.clients}
        for member_id in set(self.coordinator.group.members) - mine:
            self.coordinator.fence(member_id)
        rounds = 0
        while not self.settled():
            rounds += 1
            assert rounds < 100, [(client.member, client.reads) for client in self.clients]
            for client, wanted in zip(self.clients, self.wanted, strict=True):
                client.poll(self.coordinator, wanted)
                self.send(client)
                while client.answers:
                    self.deliver(client)
            self.time_passes(1, True)
        topics = self.coordinator.topics.by_name
        expected = {
            TopicIdPartition(topics[name].topic_id, partition)
            for name in frozenset().union(*(wanted.topics for wanted in self.wanted))
            for partition in range(topics[name].partitions)
        }
        read = [each for client in self.clients for each in client.reads]
        assert len(read) == len(set(read))
        assert set(read) == expected

    def settled(self) -> bool:
        """Return whether all members have what the coordinator wants them to have, and it knows."""
        group = self.coordinator.group
        for client in self.clients:
            member = client.member
            known = group.members.get(member.member_id)
            if known is None or member.state is not State.STABLE or member.epoch != group.group_epoch:
                return False
            if client.reads != member.target or known.topic_names != (member.wanted or BOTH_TOPICS).topics:
                return False
            if not known.is_reconciled_to(group.assignment_epoch):
                return False
        return self.coordinator.topics.version == group.seen_version


BOTH_TOPICS = Wanted(frozenset({"t0", "t1"}))
HAPPENS: list[tuple[Callable[[GroupOfMembers, int, bool], None], int]] = [
    (GroupOfMembers.round, 6),
    (GroupOfMembers.poll, 3),
    (GroupOfMembers.heartbeat, 3),
    (GroupOfMembers.answer, 3),
    (GroupOfMembers.time_passes, 2),
    (GroupOfMembers.subscribe, 2),
    (GroupOfMembers.session_ends, 1),
    (GroupOfMembers.leave_and_begin_again, 1),
    (GroupOfMembers.crash, 1),
    (GroupOfMembers.more_partitions, 1),
]
"""The events, each with the relative frequency at which it is drawn."""
events = st.tuples(
    st.sampled_from([event for event, often in HAPPENS for _ in range(often)]), st.integers(0, 2), st.booleans()
)


@pytest.mark.timeout(300)
@settings(max_examples=150)
@given(st.sampled_from(["uniform", "range"]), st.lists(events, min_size=40, max_size=80))
def test_members_and_their_coordinator(
    assignor: str, history: list[tuple[Callable[[GroupOfMembers, int, bool], None], int, bool]]
) -> None:
    group = GroupOfMembers(assignor)
    for event, number, flag in history:
        event(group, number, flag)
        group.check()
    group.settle()
