"""Tests of the contract of every registry store: the local one, and one with a version for each node."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from broker.metadata.cache import MetadataCache
from broker.metadata.local import LocalStore
from broker.metadata.model import NO_LEADER, BrokerRegistration, ClusterState, PartitionState, TopicState
from broker.metadata.operations import (
    AddPartitions,
    ChangePartitions,
    ConfigResource,
    ConflictError,
    CreateTopic,
    DeleteTopic,
    ElectController,
    ForgetDeleted,
    Operation,
    RegisterBroker,
    SetConfig,
    TakeProducerIds,
    UnregisterBroker,
    apply,
)
from broker.metadata.store import MetadataStore
from tests.support.in_process.node_store import Nodes, NodeStore
from tests.support.in_process.runtime import InlineWorkers

LED = PartitionState((0, 1), (0, 1), 0)


def topic(name: str, partitions: int = 1) -> TopicState:
    return TopicState(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), (LED,) * partitions)


def local(directory: Path) -> MetadataStore:
    store = LocalStore(directory, workers=InlineWorkers())
    store.load("shared")
    return store


def versioned(directory: Path) -> MetadataStore:
    return NodeStore(Nodes())


STORES = pytest.mark.parametrize("make", [local, versioned])
Make = Callable[[Path], MetadataStore]


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await work()

    asyncio.run(main())


@STORES
def test_commits_build_upon_each_other(make: Make, tmp_path: Path) -> None:
    async def work() -> None:
        store = make(tmp_path)
        await asyncio.gather(*(store.commit(lambda s: [TakeProducerIds(s.next_producer_id + 1)]) for _ in range(20)))
        assert store.state.next_producer_id == 20

    run(work)


@STORES
def test_what_raises_changes_nothing_and_tells_nobody(make: Make, tmp_path: Path) -> None:
    async def work() -> None:
        store = make(tmp_path)
        told: list[Sequence[Operation]] = []
        store.subscribe(lambda state, operations: told.append(operations))
        before = store.state

        def refuse(state: ClusterState) -> list[Operation]:
            raise RuntimeError("no")

        with pytest.raises(RuntimeError, match="no"):
            await store.commit(refuse)
        with pytest.raises(ConflictError):
            await store.commit(lambda state: [TakeProducerIds(9), DeleteTopic("gone", uuid.uuid4())])
        assert await store.commit(lambda state: []) is before
        assert store.state is before
        assert told == []

    run(work)


@STORES
def test_listeners_know_a_change_before_its_caller_does(make: Make, tmp_path: Path) -> None:
    async def work() -> None:
        store = make(tmp_path)
        cache = MetadataCache(store.state)
        store.subscribe(cache.update)
        for name in "ab":
            state = await store.commit(lambda state, name=name: [CreateTopic(topic(name))])  # type: ignore[misc]
            assert cache.image is state is store.state
            assert cache.names_by_id()[topic(name).topic_id] == name
        await store.commit(lambda state: [DeleteTopic("a", topic("a").topic_id)])
        assert cache.topic_names() == ["b"]
        assert topic("a").topic_id not in cache.names_by_id()

    run(work)


def test_a_listener_that_fails_keeps_no_change_from_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        store = local(tmp_path)
        told: list[Sequence[Operation]] = []

        def fail(state: ClusterState, operations: Sequence[Operation]) -> None:
            raise RuntimeError("a mistake")

        store.subscribe(fail)
        store.subscribe(lambda state, operations: told.append(operations))
        operations = [CreateTopic(topic("a"))]
        assert "a" in (await store.commit(lambda state: operations)).topics
        assert told == [operations]
        assert "a mistake" in caplog.text

    run(work)


def test_a_node_that_another_broker_changed_is_decided_upon_again() -> None:
    async def work() -> None:
        nodes = Nodes()
        ours, other = NodeStore(nodes), NodeStore(nodes)
        seen: list[int] = []

        def come_first() -> None:
            ours.before_write = lambda: None
            assert nodes.write([TakeProducerIds(1000)], {("producer_ids",): 0})

        ours.before_write = come_first

        def decide(state: ClusterState) -> list[Operation]:
            seen.append(state.next_producer_id)
            return [TakeProducerIds(state.next_producer_id + 1000)]

        state = await ours.commit(decide)
        assert (seen, state.next_producer_id) == ([0, 1000], 2000)
        # A node of its own is written without regard to the others.
        await other.commit(lambda state: [CreateTopic(topic("t"))])
        assert nodes.state.next_producer_id == 2000
        assert set(nodes.state.topics) == {"t"}

    run(work)


def test_listeners_are_told_what_other_brokers_changed() -> None:
    async def work() -> None:
        nodes = Nodes()
        ours, other = NodeStore(nodes), NodeStore(nodes)
        told: list[tuple[set[str], int]] = []
        ours.subscribe(lambda state, operations: told.append((set(state.topics), len(operations))))
        await other.commit(lambda state: [CreateTopic(topic("a")), TakeProducerIds(1)])
        await other.commit(lambda state: [CreateTopic(topic("b"))])
        assert told == []
        ours.look()
        assert told == [({"a"}, 2), ({"a", "b"}, 1)]
        await ours.commit(lambda state: [CreateTopic(topic("c"))])
        assert told[2:] == [({"a", "b", "c"}, 1)]
        ours.look()
        assert len(told) == 3

    run(work)


def test_what_cannot_be_written_is_not_in_force() -> None:
    async def work() -> None:
        nodes = Nodes()
        store = NodeStore(nodes)
        before, nodes.failing = store.state, True
        with pytest.raises(OSError, match="connection"):
            await store.commit(lambda state: [CreateTopic(topic("t"))])
        assert store.state is before

    run(work)


def test_what_is_not_durable_is_stored_with_what_is(tmp_path: Path) -> None:
    async def work() -> None:
        store = LocalStore(tmp_path, workers=InlineWorkers())
        store.load("c")
        broker = BrokerRegistration(0, (), "r", 4)
        await store.commit(lambda state: [RegisterBroker(broker), ElectController(0, 1)])
        assert not store.exists
        await store.commit(lambda state: [CreateTopic(topic("t"))])
        stored = LocalStore(tmp_path, workers=InlineWorkers()).load()
        assert stored == store.state
        assert (stored.brokers, stored.controller_id, stored.controller_epoch) == ({0: broker}, 0, 1)

    run(work)


def changed(**fields: object) -> PartitionState:
    return replace(LED, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "operation",
    [
        CreateTopic(topic("t")),
        AddPartitions("t", 1, (LED,)),
        AddPartitions("gone", 0, (LED,)),
        ChangePartitions("t", {2: changed(partition_epoch=1)}),
        ChangePartitions("t", {0: changed(partition_epoch=0)}),
        ChangePartitions("t", {0: changed(partition_epoch=2)}),
        ChangePartitions("t", {0: changed(partition_epoch=1, leader_epoch=-1)}),
        DeleteTopic("t", uuid.uuid4()),
        SetConfig(ConfigResource.TOPIC, "gone", {}),
        UnregisterBroker(0, 4),
        UnregisterBroker(1, 5),
        ElectController(1, 3),
        TakeProducerIds(9),
    ],
    ids=lambda operation: f"{type(operation).__name__}",
)
def test_operations_that_do_not_fit_are_refused(operation: Operation) -> None:
    state = ClusterState(
        "c",
        controller_epoch=3,
        brokers={0: BrokerRegistration(0, (), None, 5)},
        topics={"t": topic("t", 2)},
        next_producer_id=10,
    )
    with pytest.raises(ConflictError):
        apply(state, [operation])


def test_operations_leave_the_state_before_them_as_it_was() -> None:
    before = apply(ClusterState("c"), [CreateTopic(topic("t", 2)), RegisterBroker(BrokerRegistration(0, (), None, 5))])
    after = apply(
        before,
        [
            ChangePartitions("t", {1: changed(partition_epoch=1, leader=NO_LEADER, leader_epoch=1)}),
            AddPartitions("t", 2, (LED,)),
            SetConfig(ConfigResource.TOPIC, "t", {"a": "b"}),
            UnregisterBroker(0, 5),
        ],
    )
    assert before.topics == {"t": topic("t", 2)}
    assert set(before.brokers) == {0}
    leaders = [partition.leader for partition in after.topics["t"].partitions]
    assert (leaders, after.topics["t"].config, after.brokers) == ([0, NO_LEADER, 0], {"a": "b"}, {})
    deleted = apply(after, [DeleteTopic("t", topic("t").topic_id)])
    assert not deleted.topics
    assert deleted.deleting == {topic("t").topic_id}
    assert apply(deleted, [ForgetDeleted(deleted.deleting)]).deleting == frozenset()


def test_a_leader_that_is_not_alive_or_cannot_be_used_is_none() -> None:
    offline: set[tuple[int, str, int]] = set()
    state = apply(
        ClusterState("c"),
        [CreateTopic(topic("t", 2)), *(RegisterBroker(BrokerRegistration(broker, ())) for broker in (0, 1))],
    )
    cache = MetadataCache(state, lambda *replica: replica in offline)
    assert [cache.leader("t", index) for index in (0, 1, 2)] == [0, 0, NO_LEADER]
    offline.add((0, "t", 1))
    assert [cache.leader("t", index) for index in (0, 1)] == [0, NO_LEADER]
    assert [cache.offline_replicas("t", index, LED) for index in (0, 1)] == [[], [0]]
    cache.update(apply(state, [UnregisterBroker(0, 0)]))
    assert (cache.leader("t", 0), cache.leader("gone", 0)) == (NO_LEADER, NO_LEADER)
    assert cache.offline_replicas("t", 0, LED) == [0]
    assert cache.alive_ids() == (1,)


def test_ids_are_drawn_from_the_runtimes_chance() -> None:
    """A simulation with the same seed makes the same topics."""
    from broker.metadata.model import new_topic_id

    assert new_topic_id(set(), random.Random(3)) == new_topic_id(set(), random.Random(3))
