"""Groups in ZooKeeper on simulated time: at most one owner delivers, and nothing is missed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from broker.zookeeper import interface
from broker.zookeeper.interface import Create, Delete, Operation, Result
from kafkalog.client.connector.member import LoadOffsets
from kafkalog.client.connector.offset_stores import write_offsets
from kafkalog.client.connector.subscription import Subscription, ThreadId
from kafkalog.client.consumer.topic_filter import Blacklist, Whitelist
from kafkalog.client.types import TopicPartition
from kafkalog.client.zookeeper import nodes
from kafkalog.client.zookeeper.steps import ConnectionLossError, SessionExpiredError
from tests.kafkalog.client.connector.simulated import (
    BACKOFF_S,
    GROUP,
    SESSION_S,
    SimulatedMember,
    World,
    perform_all,
)
from tests.simulation import virtual_time
from tests.simulation.virtual_time import VirtualLoop
from tests.simulation.zookeeper import SimulatedSession
from tests.support.amount import mostly_exhaustive

SETTLE_S = 20 * SESSION_S
"""The time after the last fault in which a group settles: sessions expire, and members try again."""
Work = Callable[[World], Coroutine[None, None, None]]


def simulate(work: Work, seed: int = 1) -> None:
    async def main(loop: VirtualLoop) -> None:
        world = World(loop, seed)
        await world.prepare()
        await work(world)
        for member in world.members.values():
            member.check()

    virtual_time.run(main)


def words(streams: int = 1) -> Subscription:
    return Subscription.of_topics({"words": streams})


def owned(member: SimulatedMember) -> set[TopicPartition]:
    return set(member.member.owned)


def assert_settled(world: World) -> None:
    """Every partition has one owner that lives, and everything in the logs was delivered."""
    for member in world.members.values():
        member.check()
    assert world.owners().keys() == world.ends.keys()
    decisions = {tp: str(thread) for each in world.members.values() for tp, thread in each.member.owned.items()}
    assert world.owners() == decisions
    assert {tp: len(world.delivered[tp]) for tp in world.ends} == world.ends


def test_members_share_the_partitions_in_ranges() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 5)
        first, second = await world.join("a", words(2)), await world.join("b", words())
        world.append(10)
        await asyncio.sleep(SETTLE_S)
        assert_settled(world)
        assert first.member.owned == {
            TopicPartition("words", 0): ThreadId("a", 0),
            TopicPartition("words", 1): ThreadId("a", 0),
            TopicPartition("words", 2): ThreadId("a", 1),
            TopicPartition("words", 3): ThreadId("a", 1),
        }
        assert owned(second) == {TopicPartition("words", 4)}

    simulate(work)


def test_partitions_of_a_member_that_leaves_go_on_where_it_ended() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        first, second = await world.join("a", words()), await world.join("b", words())
        world.append(20)
        await asyncio.sleep(SETTLE_S)
        del world.members["a"]
        delivered = {tp: set(offsets) for tp, offsets in world.delivered.items()}
        await first.leave()
        world.delivered.clear()
        world.append(5)
        await asyncio.sleep(SETTLE_S)
        assert len(owned(second)) == 2
        assert {tp: offsets & delivered[tp] for tp, offsets in world.delivered.items()} == {
            tp: set() for tp in world.ends
        }

    simulate(work)


def test_a_member_that_is_cut_off_stops_before_others_own_its_partitions() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        first, second = await world.join("a", words()), await world.join("b", words())
        await asyncio.sleep(SETTLE_S)
        world.append(100_000)
        first.session.disconnect()
        # `World.deliver` fails where the member goes on without its nodes.
        await asyncio.sleep(4 * SESSION_S)
        assert len(owned(second)) == 2
        assert len(owned(first)) == 1
        first.reconnect()
        await asyncio.sleep(SETTLE_S)
        assert len(owned(second)) == len(owned(first)) == 1

    simulate(work)


def test_new_partitions_and_topics_are_found() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 1)
        await world.make_topic("__consumer_offsets", 1)
        await world.join("a", Subscription.of_filter(Whitelist("words.*"), 1))
        await world.join("b", Subscription.of_filter(Blacklist("pages"), 1))
        await asyncio.sleep(SETTLE_S)
        await world.make_topic("words", 3)
        await world.make_topic("words2", 2)
        world.append(3)
        await asyncio.sleep(SETTLE_S)
        del world.ends[TopicPartition("__consumer_offsets", 0)]
        assert_settled(world)

    simulate(work)


def test_a_member_without_brokers_begins_when_one_is_there() -> None:
    async def work(world: World) -> None:
        await world._admin.delete(f"{nodes.BROKER_IDS}/1")
        await world.make_topic("words", 2)
        member = await world.join("a", words())
        world.append(3)
        await asyncio.sleep(SETTLE_S)
        assert not owned(member)
        await world._admin.create(f"{nodes.BROKER_IDS}/2")
        await asyncio.sleep(1.0)
        assert len(owned(member)) == 2
        await asyncio.sleep(SETTLE_S)
        assert_settled(world)

    simulate(work)


def test_a_node_that_is_in_the_way_is_waited_for() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        await world.join("a", words())
        await asyncio.sleep(1.0)
        for name in ("a",):
            await world.members.pop(name).leave()
        path = nodes.owner(GROUP, TopicPartition("words", 1))
        await world._admin.create(path, b"somebody-0")
        member = await world.join("b", words())
        await asyncio.sleep(10 * BACKOFF_S)
        assert member.failed
        # The other partition is not kept meanwhile.
        assert world.owners() == {TopicPartition("words", 1): "somebody-0"}
        await world._admin.delete(path)
        world.append(2)
        await asyncio.sleep(SETTLE_S)
        assert_settled(world)

    simulate(work)


def test_a_member_whose_node_was_deleted_registers_again() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        member = await world.join("a", words())
        await world.join("b", words())
        await asyncio.sleep(SETTLE_S)
        await world._admin.delete(member.member.path)
        world.append(4)
        await asyncio.sleep(SETTLE_S)
        assert_settled(world)
        assert len(owned(member)) == 1

    simulate(work)


@pytest.mark.parametrize("is_deleted", [False, True], ids=["a session before", "the node was deleted"])
def test_a_member_that_takes_its_session_for_expired_gives_up_what_others_get(is_deleted: bool) -> None:
    """It hears late of the end of a session before the present one, or somebody deletes its node."""

    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        first = SimulatedMember(world, "a", words(), "range")

        async def others(effect: Any) -> Any:
            return {} if isinstance(effect, LoadOffsets) else None

        await perform_all(first.session, first.member.join())
        await perform_all(first.session, first.member.rebalance(), others)
        assert len(world.owners()) == 2
        if is_deleted:
            await world._admin.delete(first.member.path)
        second = await world.join("b", words())
        await asyncio.sleep(BACKOFF_S / 2)
        assert world.ensemble.exists(second.member.path)
        await perform_all(first.session, first.member.expired(), others)
        await asyncio.sleep(SETTLE_S)
        assert len(owned(first)) == len(owned(second)) == 1
        assert {tp: owner[0] for tp, owner in world.owners().items()} == {
            TopicPartition("words", 0): "a",
            TopicPartition("words", 1): "b",
        }

    simulate(work)


def test_an_expired_session_commits_nothing() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 1)
        member = await world.join("a", words())
        world.append(3)
        await asyncio.sleep(SETTLE_S)
        tp = TopicPartition("words", 0)
        commit = write_offsets(GROUP, {tp: 1}, only_while=f"{nodes.members(GROUP)}/gone")
        with pytest.raises(SessionExpiredError):
            await perform_all(member.session, commit)
        assert world.ensemble.read(nodes.offset(GROUP, tp)).data == b"3"

    simulate(work)


def test_claims_of_an_expired_session_are_not_made_in_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        member = SimulatedMember(world, "a", words(), "range")
        session = member.session
        await perform_all(session, member.member.register())
        multi = session.multi

        async def late(operations: Sequence[Operation]) -> list[Result]:
            if any(isinstance(each, Create) and each.is_ephemeral for each in operations):
                session.disconnect()
                await asyncio.sleep(SESSION_S + 1)
                session.reconnect()
            return await multi(operations)

        async def others(effect: Any) -> Any:
            return {} if isinstance(effect, LoadOffsets) else None

        monkeypatch.setattr(session, "multi", late)
        with pytest.raises(SessionExpiredError):
            await perform_all(session, member.member.rebalance(), others)
        assert not world.owners()

    simulate(work)


@pytest.mark.parametrize("is_deleted", [True, False], ids=["is deleted", "cannot be deleted either"])
def test_a_registration_whose_answer_is_lost_is_taken_back(monkeypatch: pytest.MonkeyPatch, is_deleted: bool) -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 1)
        first = SimulatedMember(world, "a", words(), "range")
        multi = first.session.multi

        async def unheard(operations: Sequence[Operation]) -> list[Result]:
            if isinstance(operations[0], Delete) and not is_deleted:
                raise interface.ConnectionLossError
            found = await multi(operations)
            if isinstance(operations[0], Create) and operations[0].is_ephemeral:
                raise interface.ConnectionLossError
            return found

        monkeypatch.setattr(first.session, "multi", unheard)
        with pytest.raises(ConnectionLossError):
            await perform_all(first.session, first.member.join())
        path = first.member.path
        assert world.ensemble.exists(path) != is_deleted
        monkeypatch.setattr(first.session, "multi", multi)
        # The next try may be with other topics.
        other = Subscription.of_topics({"numbers": 2})
        second = SimulatedMember(world, "a", other, "range")
        await perform_all(first.session, second.member.join())
        assert Subscription.decode(path, world.ensemble.read(path).data) == other

    simulate(work)


def test_a_partition_counts_as_released_before_the_answer_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another member may own it already, so nothing of it may be committed any more."""

    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        member = SimulatedMember(world, "a", words(), "range")
        session = member.session

        async def others(effect: Any) -> Any:
            return {} if isinstance(effect, LoadOffsets) else None

        await perform_all(session, member.member.register())
        await perform_all(session, member.member.rebalance(), others)
        multi = session.multi

        async def unheard(operations: Sequence[Operation]) -> list[Result]:
            await multi(operations)
            raise interface.ConnectionLossError

        monkeypatch.setattr(session, "multi", unheard)
        with pytest.raises(ConnectionLossError):
            await perform_all(session, member.member.leave())
        assert world.owners().keys() == owned(member) == {TopicPartition("words", 1)}

    simulate(work)


def test_roundrobin_refuses_members_that_read_other_topics() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        await world.make_topic("pages", 2)
        both = Subscription.of_topics({"words": 1, "pages": 1})
        first = await world.join("a", both, "roundrobin")
        await asyncio.sleep(SETTLE_S)
        assert len(owned(first)) == 4
        await world.join("b", words(), "roundrobin")
        await asyncio.sleep(SETTLE_S)
        assert first.failed
        assert not world.owners()

    simulate(work)


def test_nobody_owns_partitions_beside_a_member_whose_expression_cannot_be_read() -> None:
    async def work(world: World) -> None:
        await world.make_topic("words", 2)
        first = await world.join("a", words())
        await asyncio.sleep(SETTLE_S)
        assert len(owned(first)) == 2
        path = f"{nodes.members(GROUP)}/b"
        foreign = SimulatedSession(world.ensemble, SESSION_S)
        await foreign.create(
            path, rb'{"pattern": "white_list", "subscription": {"\\p{InGreek}+": 1}}', is_ephemeral=True
        )
        await asyncio.sleep(SETTLE_S)
        assert first.failed
        assert not world.owners()
        await foreign.close()
        world.append(3)
        await asyncio.sleep(SETTLE_S)
        assert_settled(world)

    simulate(work)


async def _one_fault(world: World, number: int, subscription: Subscription, strategy: str) -> None:
    chance = world.chance
    name = chance.choice(sorted(world.members))
    match chance.choice(("cut", "cut", "cut", "leave", "kill", "join", "grow", "append")):
        case "cut":
            member = world.members[name]
            member.session.disconnect()
            world.loop.call_later(chance.choice((0.01, 0.5, SESSION_S - 0.3, SESSION_S + 1, 15)), member.reconnect)
        case "leave":
            if len(world.members) > 1:
                await world.members.pop(name).leave()
        case "kill":
            if len(world.members) > 1:
                world.members.pop(name).kill()
        case "join":
            await world.join(f"m{number}", subscription, strategy)
        case "grow":
            await world.make_topic("words", min(sum(tp.topic == "words" for tp in world.ends) + 1, 9))
        case "append":
            world.append(chance.randrange(50))


@pytest.mark.parametrize("seed", mostly_exhaustive(range(200), 12))
def test_faults_break_nothing(seed: int) -> None:
    async def work(world: World) -> None:
        chance = world.chance
        strategy = chance.choice(("range", "roundrobin"))
        subscription = chance.choice(
            (
                words(2),
                Subscription.of_topics({"words": 1, "pages": 1}),
                Subscription.of_filter(Whitelist("words,pages"), 2),
            )
        )
        await world.make_topic("words", chance.randrange(1, 6))
        await world.make_topic("pages", 2)
        for number in range(3):
            await world.join(f"m{number}", subscription, strategy)
        for number in range(3, 18):
            await asyncio.sleep(chance.choice((0.0, 0.05, 1.0, 5.0, 20.0)))
            await _one_fault(world, number, subscription, strategy)
        await asyncio.sleep(20)
        for member in world.members.values():
            member.reconnect()
        world.append(5)
        await asyncio.sleep(SETTLE_S)
        if "pages" not in subscription.select({"pages"}):
            world.ends = {tp: end for tp, end in world.ends.items() if tp.topic == "words"}
        assert_settled(world)

    simulate(work, seed)
