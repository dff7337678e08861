"""Test access control entries in a simulated ZooKeeper: what is written, followed and survived."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from broker.controller.security.acls import follow
from broker.metadata.model import ClusterState
from broker.metadata.operations import Operation, SetAcls
from broker.metadata.tree.store import ZooKeeperStore
from broker.metadata.znodes import acls, paths
from broker.security.authorizer.authorizer import Authorizer
from broker.security.authorizer.model import UNREADABLE, AclEntry, Acls, ResourcePattern
from broker.zookeeper.interface import ensure
from kafkalog.protocol.acls import AclOperation, AclPatternType, AclPermission, AclResourceType
from tests.broker.metadata.tree.support import World, run, until

WORDS = ResourcePattern(AclResourceType.TOPIC, AclPatternType.LITERAL, "words")
PREFIX = ResourcePattern(AclResourceType.GROUP, AclPatternType.PREFIXED, "wo")


def entry(user: str, operation: AclOperation = AclOperation.READ) -> AclEntry:
    return AclEntry(f"User:{user}", "*", operation, AclPermission.ALLOW)


async def add(store: ZooKeeperStore, pattern: ResourcePattern, entries: Iterable[AclEntry]) -> None:
    added = frozenset(entries)

    def decide(state: ClusterState) -> list[Operation]:
        before = state.acls.get(pattern, frozenset())
        return [] if added <= before else [SetAcls(pattern, before | added)]

    await store.commit(decide)


async def remove(store: ZooKeeperStore, pattern: ResourcePattern) -> None:
    await store.commit(lambda state: [SetAcls(pattern, frozenset())] if pattern in state.acls else [])


def test_entries_reach_all_brokers_and_go_again() -> None:
    async def scenario(world: World) -> None:
        one, two = await world.store(1, with_acls=True), await world.store(2, with_acls=True)
        zookeeper = world.session()
        await zookeeper.delete(paths.CONTROLLER)
        await add(one, WORDS, [entry("ann")])
        await add(one, PREFIX, [entry("ann"), entry("bob")])
        expected: Acls = {WORDS: frozenset({entry("ann")}), PREFIX: frozenset({entry("ann"), entry("bob")})}
        assert one.state.acls == expected, "in force for the broker that wrote it, and without a controller"
        await until(lambda: two.state.acls == expected, "the other broker knows them")
        node = await zookeeper.get("/kafka-acl/Topic/words")
        assert node is not None
        assert node.data == acls.encode(expected[WORDS])
        late = await world.store(3, with_acls=True)
        assert late.state.acls == expected
        await remove(two, WORDS)
        await remove(two, PREFIX)
        assert two.state.acls == {}
        await until(lambda: one.state.acls == {} == late.state.acls, "the other brokers know that they are gone")
        assert await zookeeper.get("/kafka-acl/Topic/words") is None

    run(scenario)


def test_without_an_authorizer_nothing_is_read_or_made() -> None:
    async def scenario(world: World) -> None:
        await world.store(1)
        assert await world.session().get("/kafka-acl") is None

    run(scenario)


def test_brokers_that_write_at_the_same_time_lose_nothing() -> None:
    async def scenario(world: World) -> None:
        stores = [await world.store(number, with_acls=True) for number in (1, 2, 3)]
        users = [f"user-{number}" for number in range(18)]
        await asyncio.gather(
            *(add(stores[number % 3], WORDS, [entry(user)]) for number, user in enumerate(users)),
            *(add(stores[number % 3], PREFIX, [entry(user)]) for number, user in enumerate(users)),
        )
        expected = frozenset(map(entry, users))
        wanted = {WORDS: expected, PREFIX: expected}
        await until(lambda: all(store.state.acls == wanted for store in stores), "all entries are known")

    run(scenario)


@pytest.mark.parametrize("pattern", [WORDS, PREFIX])
def test_what_kafkas_tool_writes_is_followed(pattern: ResourcePattern) -> None:
    async def scenario(world: World) -> None:
        store = await world.store(1, with_acls=True)
        zookeeper = world.session()
        path = acls.path(pattern)
        await ensure(zookeeper, path.rpartition("/")[0])
        await zookeeper.create(path, acls.encode(frozenset({entry("ann")})))
        prefix = acls.change_prefix(pattern.pattern_type)
        await zookeeper.create(prefix, acls.encode_change(pattern), is_sequential=True)
        await until(lambda: store.state.acls.get(pattern) == frozenset({entry("ann")}), "it is known")
        await zookeeper.create(prefix, b"damaged", is_sequential=True)
        await zookeeper.delete(path)
        await zookeeper.create(prefix, acls.encode_change(pattern), is_sequential=True)
        await until(lambda: pattern not in store.state.acls, "it is gone, in spite of a damaged notice")
        await add(store, pattern, [entry("bob")])
        await zookeeper.delete(path)
        await zookeeper.create(prefix, b"damaged", is_sequential=True)
        await until(lambda: pattern not in store.state.acls, "a notice that says nothing has everything read")

    run(scenario)


def test_after_a_lost_connection_everything_is_read_again() -> None:
    async def scenario(world: World) -> None:
        store = await world.store(1, with_acls=True)
        await add(store, WORDS, [entry("ann")])
        zookeeper = world.session()
        world.sessions[1].disconnect()
        # Without a notice: it may be removed before the broker is back.
        await zookeeper.delete(acls.path(WORDS))
        world.sessions[1].reconnect()
        await until(lambda: store.state.acls == {}, "the right that was taken away is gone")

    run(scenario)


def test_a_damaged_node_lets_nobody_in_until_it_is_deleted_or_corrected(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        store = await world.store(1, with_acls=True)
        authorizer = Authorizer(frozenset({("User", "root")}), allow_if_none=True)
        store.subscribe(follow(authorizer))
        zookeeper = world.session()

        def allows(user: str) -> bool:
            return authorizer.allows(("User", user), "::1", AclOperation.READ, AclResourceType.TOPIC, "words")

        await add(store, WORDS, [entry("ann")])
        assert allows("ann")
        await zookeeper.set(acls.path(WORDS), b'{"version":1,"acls":[{"principal":"User:ann"}]}')
        notice = acls.encode_change(WORDS)
        await zookeeper.create(acls.change_prefix(AclPatternType.LITERAL), notice, is_sequential=True)
        await until(lambda: store.state.acls[WORDS] == UNREADABLE, "it is noticed")
        assert not allows("ann")
        assert allows("root")
        assert "only super users may do anything with Topic:LITERAL:words" in caplog.text
        with pytest.raises(OSError, match="is damaged"):
            await add(store, WORDS, [entry("bob")])
        await remove(store, WORDS)
        assert store.state.acls == {}
        await add(store, WORDS, [entry("bob")])
        assert allows("bob")
        assert not allows("ann")

    run(scenario)
