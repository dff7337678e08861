"""Controllers of a cluster that work together and survive failures, on simulated time."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Sequence

import pytest

from broker.controller.cluster.events.isr import AskedKey, WantedIsr
from broker.controller.decisions.elections import ElectionType
from broker.metadata.model import NO_CONTROLLER
from broker.metadata.znodes import controller, paths, topics
from broker.metadata.znodes.topics import Assignment, StateNode, TopicNode
from broker.zookeeper.interface import AccessDeniedError, Create, Delete, MultiError, Operation, Result, SetData
from kafkalog.protocol.errors import (
    FencedLeaderEpochError,
    KafkaError,
    NotControllerError,
    StaleBrokerEpochError,
    UnknownTopicIdError,
)
from tests.broker.controller.cluster.played import Cluster, play
from tests.simulation.obedient_broker import SESSION_S, ObedientBroker, running
from tests.simulation.zookeeper import SimulatedSession
from tests.support.amount import mostly_exhaustive


def test_one_broker_is_elected_and_the_others_know_it() -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        await cluster.until(
            lambda: {each.controller.controller_id for each in cluster.brokers.values()} == {boss.broker_id}
        )
        assert boss.controller.epoch == 1
        assert controller.decode_epoch(cluster.ensemble.read(paths.CONTROLLER_EPOCH).data) == 1

    play(scenario)


def test_a_topic_comes_into_being_and_goes() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2, 3), (2, 3, 1)])
        await cluster.until(lambda: cluster.names() == ["words"] and cluster.is_settled())
        assert [state.leader for state in cluster.states().values() if state] == [1, 2]
        cluster.make(paths.delete_topic("words"))
        await cluster.until(lambda: not cluster.names() and cluster.is_settled())
        assert not any(broker.roles for broker in cluster.brokers.values())

    play(scenario)


def test_another_broker_takes_over_when_the_controller_dies() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2, 3), (2, 3, 1), (3, 1, 2)])
        await cluster.until(cluster.is_settled)
        former = cluster.boss()
        await former.stop()
        await cluster.until(lambda: cluster.active() is not None)
        boss = cluster.boss()
        assert boss.controller.epoch == 2
        left = set(cluster.brokers) - {former.broker_id}
        await cluster.until(lambda: all(state and set(state.isr) == left for state in cluster.states().values()))
        changes = boss.controller.history.of("words", former.broker_id - 1)
        assert any(noted.what.startswith(f"leader {former.broker_id} ->") for noted in changes)
        await former.start()
        await cluster.until(cluster.is_settled)
        # Preferred leaders lead again after a while.
        await cluster.until(lambda: [state.leader for state in cluster.states().values() if state] == [1, 2, 3])

    play(scenario)


def test_no_broker_stands_for_election_beside_a_kraft_controller(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        epoch = cluster.ensemble.read(paths.CONTROLLER_EPOCH)
        # As a KRaft controller claims the office (KafkaZkClient.tryRegisterKRaftControllerAsActiveController).
        cluster.do(
            SetData(paths.CONTROLLER_EPOCH, controller.encode_epoch(boss.controller.epoch + 1), epoch.stat.version),
            Delete(paths.CONTROLLER),
            Create(paths.CONTROLLER, b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":2}'),
        )
        await cluster.until(lambda: cluster.active() is None)
        await cluster.until(
            lambda: {each.controller.controller_id for each in cluster.brokers.values()} == {NO_CONTROLLER}
        )
        assert "there is no election: the node /controller says that KRaft controller 3000 migrates" in caplog.text
        assert "Traceback" not in caplog.text
        cluster.do(Delete(paths.CONTROLLER))
        await cluster.until(lambda: cluster.active() is not None)

    play(scenario)


def test_an_operator_can_force_an_election() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2)])
        await cluster.until(cluster.is_settled)
        cluster.do(Delete(paths.CONTROLLER))
        await cluster.until(
            lambda: (
                cluster.active() is not None
                and controller.decode_epoch(cluster.ensemble.read(paths.CONTROLLER_EPOCH).data) == 2
            )
        )
        await cluster.until(cluster.is_settled)

    play(scenario)


def test_a_controller_whose_connection_breaks_goes_on_and_misses_nothing() -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        epoch = boss.controller.epoch
        boss.session.disconnect()
        cluster.make_topic("words", [(1, 2, 3)])
        await asyncio.sleep(SESSION_S / 2)
        boss.session.reconnect()
        await cluster.until(lambda: bool(cluster.states()) and cluster.is_settled())
        assert boss.controller.epoch == epoch
        # Its watches are set again.
        cluster.make_topic("more", [(2, 1)])
        await cluster.until(lambda: len(cluster.states()) == 2 and cluster.is_settled())

    play(scenario)


def test_a_controller_whose_session_expires_is_fenced() -> None:
    async def scenario(cluster: Cluster) -> None:
        former = cluster.boss()
        former.session.disconnect()
        asked = asyncio.ensure_future(former.controller.allocate_producer_ids(1, cluster.brokers[1].epoch))
        cluster.make_topic("words", [(1, 2, 3)])
        await cluster.until(
            lambda: any(each.controller.is_active for each in cluster.brokers.values() if each is not former)
        )
        # It does not know that it is not the controller any more.
        assert former.controller.is_active
        former.session.reconnect()
        await cluster.until(lambda: not former.controller.is_active)
        with pytest.raises(NotControllerError):
            await asked
        await cluster.until(cluster.is_settled)
        assert former is not cluster.boss()

    play(scenario)


def test_a_process_that_dies_is_noticed_before_its_session_expires() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2, 3), (2, 3, 1), (3, 1, 2)])
        await cluster.until(cluster.is_settled)
        boss = cluster.boss()
        victim = next(each for each in cluster.brokers.values() if each is not boss)
        before = cluster.loop.time()
        await victim.stop()
        index = victim.broker_id - 1
        await cluster.until(
            lambda: (state := cluster.state("words", index)) is not None and state.leader != victim.broker_id
        )
        assert cluster.loop.time() - before < 1.5 < SESSION_S
        causes = [noted.cause for noted in boss.controller.history.of("words", index)]
        assert "nothing listened at PLAINTEXT://host" in causes[-1]

    play(scenario, marked=True)


def test_a_controller_whose_process_dies_is_replaced_before_its_session_expires() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2, 3), (2, 3, 1), (3, 1, 2)])
        await cluster.until(cluster.is_settled)
        for epoch in (2, 3):
            former = cluster.boss()
            before = cluster.loop.time()
            await former.stop()
            await cluster.until(lambda: cluster.active() is not None)
            assert cluster.boss().controller.epoch == epoch
            assert former.broker_id not in cluster.registered()
            await cluster.until(
                lambda: former.broker_id not in {state.leader for state in cluster.states().values() if state}  # noqa: B023
            )
            assert cluster.loop.time() - before < 2 < SESSION_S
            await former.start()
            await cluster.until(cluster.is_settled)

    play(scenario, marked=True)


def test_brokers_that_do_not_watch_themselves_keep_their_registration() -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        victim = next(each for each in cluster.brokers.values() if each is not boss)
        await victim.stop()
        await asyncio.sleep(SESSION_S - 1)
        assert victim.broker_id in cluster.registered()
        await cluster.until(lambda: victim.broker_id not in cluster.registered())

    play(scenario)


def test_requests_of_administrators() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2)])
        await cluster.until(cluster.is_settled)
        boss = cluster.boss().controller
        key = ("words", 0)
        assert await boss.alter_reassignments({key: (3, 1)}) == {key: None}
        assert await boss.list_reassignments(None) == {key: Assignment((3, 1, 2), (3,), (2,))}
        await cluster.until(lambda: cluster.topic("words").partitions[0] == Assignment((3, 1)) and cluster.is_settled())
        assert await boss.list_reassignments(None) == {}
        assert await boss.elect_leaders([key], ElectionType.PREFERRED) == {key: 3}
        await cluster.until(cluster.is_settled)
        victim = cluster.brokers[3]
        assert await boss.controlled_shutdown(3, victim.epoch) == []
        state = cluster.state("words")
        assert state is not None
        assert (state.leader, state.isr) == (1, (1,))
        block = await boss.allocate_producer_ids(2, cluster.brokers[2].epoch)
        assert (block.first, block.last) == (0, 999)
        with pytest.raises(StaleBrokerEpochError):
            await boss.allocate_producer_ids(2, cluster.brokers[2].epoch - 1)
        for other in cluster.brokers.values():
            if other is not cluster.boss():
                with pytest.raises(NotControllerError):
                    await other.controller.list_reassignments(None)

    play(scenario)


def test_a_new_controller_is_asked_for_topics_before_it_has_read_them() -> None:
    """It tells of itself first, so leaders ask at once. An answer that there is no such topic would be final."""

    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2, 3)])
        await cluster.until(cluster.is_settled)
        topic_id = topics.decode_topic("words", cluster.ensemble.read(paths.topic("words")).data).topic_id
        assert topic_id is not None
        unknown = uuid.uuid4()
        former = cluster.boss()
        await former.stop()
        while (boss := cluster.active()) is None:
            await asyncio.sleep(0.0001)
        context = boss.controller.context
        assert context is not None
        assert not context.topic_names, "it has not read them yet"
        leader = next(each for each in cluster.brokers.values() if each is not former and each is not boss)
        # It is not the leader any more, and is told so: a topic that nobody knew would have another answer.
        asked: dict[AskedKey, WantedIsr] = {(each, 0): WantedIsr(-1, (1,), 0) for each in (topic_id, unknown)}
        results = await boss.controller.alter_partition(leader.broker_id, leader.epoch, asked)
        assert isinstance(results[topic_id, 0], FencedLeaderEpochError)
        assert isinstance(results[unknown, 0], UnknownTopicIdError)

    play(scenario)


def test_a_change_of_an_isr_waits_for_one_turn_of_the_controller() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2, 3)])
        await cluster.until(cluster.is_settled)
        topic_id = topics.decode_topic("words", cluster.ensemble.read(paths.topic("words")).data).topic_id
        assert topic_id is not None
        boss, leader = cluster.boss().controller, cluster.brokers[1]
        order: list[str] = []

        async def alter() -> None:
            state = cluster.state("words")
            assert state is not None
            wanted = WantedIsr(state.leader_epoch, (1, 2), state.partition_epoch)
            results = await boss.alter_partition(leader.broker_id, leader.epoch, {(topic_id, 0): wanted})
            changed = results[topic_id, 0]
            assert isinstance(changed, StateNode)
            assert changed.isr == (1, 2)
            order.append("ISR")

        async def other() -> None:
            await boss.list_reassignments(None)
            order.append("what was asked later")

        await asyncio.gather(alter(), other())
        assert order == ["ISR", "what was asked later"]

    play(scenario)


def test_a_controller_that_fails_resigns_and_is_elected_again() -> None:
    async def scenario(cluster: Cluster) -> None:
        cluster.make_topic("words", [(1, 2)])
        await cluster.until(cluster.is_settled)
        boss = cluster.boss()
        context = boss.controller.context
        assert context is not None
        # What it knows makes no sense any more.
        context.assignments["words"] = None  # type: ignore[assignment]
        with pytest.raises(KafkaError):
            await boss.controller.alter_reassignments({("words", 0): (2, 1)})
        await cluster.until(lambda: cluster.active() is not None and cluster.boss().controller.epoch > 1)
        await cluster.until(cluster.is_settled)

    play(scenario)


def test_a_controller_that_cannot_give_up_its_office_is_elected_again_later(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        context, carry_out = boss.controller.context, boss.session.multi
        assert context is not None
        refusals = 3

        async def multi(operations: Sequence[Operation]) -> list[Result]:
            nonlocal refusals
            if refusals and Delete(paths.CONTROLLER) in operations:
                refusals -= 1
                raise MultiError(1, AccessDeniedError("a test"))
            return await carry_out(operations)

        boss.session.multi = multi  # type: ignore[method-assign]
        context.assignments["words"] = None  # type: ignore[assignment]
        before = cluster.loop.time()
        with pytest.raises(KafkaError):
            await boss.controller.alter_reassignments({("words", 0): (2, 1)})
        await cluster.until(lambda: cluster.active() is not None and cluster.boss().controller.epoch > 1)
        assert refusals == 0
        # There is a pause between the attempts.
        assert cluster.loop.time() - before > 2
        await cluster.until(cluster.is_settled)

    play(scenario)
    assert "the node of the controller cannot be deleted" in caplog.text


def test_a_controller_that_stops_answers_what_waits() -> None:
    async def scenario(cluster: Cluster) -> None:
        boss = cluster.boss()
        boss.session.disconnect()
        asked = [
            asyncio.ensure_future(boss.controller.allocate_producer_ids(1, cluster.brokers[1].epoch)) for _ in range(3)
        ]
        await asyncio.sleep(0.1)
        await boss.close()
        for each in asked:
            with pytest.raises(NotControllerError):
                await each

    play(scenario)


@pytest.mark.parametrize("seed", mostly_exhaustive(range(40), 4))
@pytest.mark.parametrize("protocol", ["3.9", "2.8"])
def test_whatever_happens_all_becomes_well_again(seed: int, protocol: str) -> None:
    """Kill, cut off, start anew, create, delete, reassign, elect, and look whether everything is in order then."""

    async def scenario(cluster: Cluster) -> None:
        chance = random.Random(seed)
        epochs: dict[tuple[str, int, int], int] = {}
        cluster.make_topic("words", [(1, 2, 3), (2, 3, 4), (3, 4, 1)])
        made = 0
        for _ in range(25):
            await asyncio.sleep(chance.uniform(0, 2))
            victim = chance.choice(list(cluster.brokers.values()))
            boss = cluster.active()
            match chance.randrange(10):
                case 0 if victim.is_running and len(running(cluster.brokers.values())) > 2:
                    await victim.stop()
                case 1 if not victim.is_running:
                    await victim.start()
                case 2 if victim.is_running:
                    victim.session.disconnect()
                    cluster.loop.call_later(chance.uniform(0, 2 * SESSION_S), reconnect, victim, victim.session)
                case 3:
                    made += 1
                    replicas = chance.sample(sorted(cluster.brokers), chance.randint(1, 3))
                    cluster.make_topic(f"topic{made}", [replicas] * chance.randint(1, 3))
                case 4 if cluster.names():
                    cluster.make(paths.delete_topic(chance.choice(cluster.names())))
                case 5 if cluster.names() and boss is not None:
                    name = chance.choice(cluster.names())
                    index = chance.choice(sorted(cluster.topic(name).partitions))
                    wanted = tuple(chance.sample(sorted(cluster.brokers), chance.randint(1, 3)))
                    await ignoring(boss.controller.alter_reassignments({(name, index): wanted}))
                case 6 if boss is not None:
                    await ignoring(boss.controller.elect_leaders(None, ElectionType.PREFERRED))
                case 7 if boss is not None and victim.is_running:
                    await ignoring(boss.controller.controlled_shutdown(victim.broker_id, victim.epoch))
                    await victim.stop()
                case 8 if cluster.ensemble.exists(paths.CONTROLLER):
                    cluster.do(Delete(paths.CONTROLLER))
                case 9 if cluster.names():
                    name = chance.choice(cluster.names())
                    node = cluster.topic(name)
                    more = Assignment(tuple(chance.sample(sorted(cluster.brokers), 2)))
                    written = topics.encode_topic(
                        TopicNode(node.topic_id, {**node.partitions, len(node.partitions): more})
                    )
                    version = cluster.ensemble.read(paths.topic(name)).stat.version
                    cluster.do(SetData(paths.topic(name), written, version))
            for key, state in cluster.states().items():
                if state is not None:
                    created = cluster.ensemble.read(paths.topic(key[0])).stat.created
                    assert state.isr
                    assert state.leader_epoch >= epochs.get((*key, created), 0)
                    epochs[*key, created] = state.leader_epoch
        for broker in cluster.brokers.values():
            if broker.is_running:
                broker.session.reconnect()
            else:
                await broker.start()
        await cluster.until(cluster.is_settled)

    play(scenario, seed, count=4, protocol=protocol, marked=bool(seed % 2))


def reconnect(broker: ObedientBroker, session: SimulatedSession) -> None:
    """Connect a broker again, unless its process was killed meanwhile."""
    if broker.is_running and broker.session is session:
        session.reconnect()


async def ignoring(request: Awaitable[object]) -> None:
    """Await a request that a fault may make fail."""
    try:
        await asyncio.wait_for(request, 30)
    except (KafkaError, TimeoutError):
        return
