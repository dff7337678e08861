"""Test that regular expressions are matched against topics off the event loop, and that results are cached."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from uuid import UUID

import pytest

from broker.coordinator.group.kip848.context import Matched
from broker.coordinator.group.kip848.topics import cluster_topics
from broker.coordinator.group.kip848.topics.cluster_topics import ClusterTopics
from broker.coordinator.group.kip848.topics.turns import Turns
from broker.metadata.cache import MetadataCache
from broker.metadata.local import LocalStore
from broker.metadata.model import PartitionState, TopicState
from broker.system.workers import ThreadWorkers
from kafkalog.protocol.errors import InvalidRegularExpressionError
from tests.support.in_process.registry import having
from tests.support.in_process.runtime import InlineWorkers

DEADLINE_S = 60.0


async def make(store: LocalStore, *names: str) -> None:
    for name in names:
        topic = TopicState(name, UUID(bytes=name.encode().rjust(16)), (PartitionState((0,), (0,), 0, 0),), {})
        await store.commit(having(topic))


def following(store: LocalStore) -> MetadataCache:
    cache = MetadataCache(store.state)
    store.subscribe(cache.update)
    return cache


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path, workers=InlineWorkers())
    store.load(None)
    return store


def test_the_loop_goes_on_while_an_expression_is_matched(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = ClusterTopics(following(store), ThreadWorkers(2))
    match, may_end = cluster_topics._match, threading.Event()

    def slow(regex: str, names: tuple[str, ...]) -> frozenset[str]:
        assert may_end.wait(DEADLINE_S), "the loop stands still"
        return match(regex, names)

    async def work() -> None:
        await make(store, "a1", "b1")
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, may_end.set)
        assert topics.matching("a.") is None
        await topics.match("g", "a.")
        assert topics.matching("a.") == Matched(frozenset({"a1"}), topics.version)

    monkeypatch.setattr(cluster_topics, "_match", slow)
    asyncio.run(work())


def test_what_was_matched_is_kept_until_the_topics_change(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = ClusterTopics(following(store), ThreadWorkers(2))
    match = cluster_topics._match
    asked: list[str] = []

    def counted(regex: str, names: tuple[str, ...]) -> frozenset[str]:
        asked.append(regex)
        return match(regex, names)

    async def work() -> None:
        await make(store, "a1")
        await asyncio.gather(topics.match("g", "a."), topics.match("h", "a."))
        for _ in range(2):
            with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression"):
                await topics.match("g", "(")
        assert asked == ["a.", "("]
        with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression"):
            topics.matching("(")
        before = topics.version
        await make(store, "a2")
        # Until it is matched anew, what it matched before, and when, is told.
        assert topics.matching("a.") == Matched(frozenset({"a1"}), before)
        assert topics.matching("(") is None
        await topics.match("g", "a.")
        assert topics.matching("a.") == Matched(frozenset({"a1", "a2"}), topics.version)

    monkeypatch.setattr(cluster_topics, "_match", counted)
    asyncio.run(work())


def test_the_latest_expressions_are_kept(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_topics, "REGEXES_KEPT", 2)
    topics = ClusterTopics(following(store), ThreadWorkers(2))

    async def work() -> None:
        await make(store, "a1")
        for regex in ("a", "b", "c"):
            await topics.match("g", regex)
        assert topics.matching("a") is None
        assert topics.matching("c") == Matched(frozenset(), topics.version)

    asyncio.run(work())


def test_a_group_with_many_expressions_waits_longer_itself(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = ClusterTopics(following(store), ThreadWorkers(2))
    order: list[str] = []

    def match(regex: str, names: tuple[str, ...]) -> frozenset[str]:
        order.append(regex)
        return frozenset()

    monkeypatch.setattr(cluster_topics, "_match", match)

    async def work() -> None:
        await make(store, "a1")
        hostile = [topics.match("hostile", f"h{number}") for number in range(5)]
        await asyncio.gather(*hostile, topics.match("good", "g0"), topics.match("good", "g1"))

    asyncio.run(work())
    assert order == ["h0", "h1", "g0", "h2", "g1", "h3", "h4"]


def test_who_gives_up_waiting_for_a_turn_passes_it_on() -> None:
    turns = Turns()
    done: list[str] = []

    async def piece(name: str) -> None:
        async with turns.turn(name):
            await asyncio.sleep(0)
            done.append(name)

    async def work() -> None:
        async with turns.turn("first"):
            waiting = [asyncio.ensure_future(piece(name)) for name in ("waits", "is given", "last")]
            await asyncio.sleep(0)
            waiting[0].cancel()
            await asyncio.sleep(0)
        # It has the turn now, and has not run since.
        waiting[1].cancel()
        await asyncio.wait_for(waiting[2], DEADLINE_S)
        await asyncio.wait_for(piece("later"), DEADLINE_S)

    asyncio.run(work())
    assert done == ["last", "later"]
