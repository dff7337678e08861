"""What regular expressions match among the cluster's topics: worked out beside the event loop, and kept."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from uuid import UUID

import pytest

from broker.coordinator.group import cluster_topics
from broker.coordinator.group.cluster_topics import ClusterTopics
from broker.coordinator.group.modern.context import Matched
from broker.metadata.local import LocalStore
from broker.metadata.model import PartitionState, TopicState
from kafkalog.protocol.errors import InvalidRegularExpressionError

DEADLINE_S = 60.0


async def make(store: LocalStore, *names: str) -> None:
    for name in names:
        topic = TopicState(name, UUID(bytes=name.encode().rjust(16)), (PartitionState((0,), (0,), 0, 0),), {})
        await store.commit(lambda state, topic=topic: state.with_topics(topic))  # type: ignore[misc]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    store = LocalStore(tmp_path)
    store.load(None)
    return store


def test_the_loop_goes_on_while_an_expression_is_matched(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = ClusterTopics(store)
    match, may_end = cluster_topics._match, threading.Event()

    def slow(regex: str, names: tuple[str, ...]) -> frozenset[str]:
        assert may_end.wait(DEADLINE_S), "the loop stands still"
        return match(regex, names)

    async def work() -> None:
        await make(store, "a1", "b1")
        asyncio.get_running_loop().call_soon(asyncio.get_running_loop().call_soon, may_end.set)
        assert topics.matching("a.") is None
        await topics.match(["a."])
        assert topics.matching("a.") == Matched(frozenset({"a1"}), topics.version)

    monkeypatch.setattr(cluster_topics, "_match", slow)
    asyncio.run(work())


def test_what_was_matched_is_kept_until_the_topics_change(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = ClusterTopics(store)
    match = cluster_topics._match
    asked: list[str] = []

    def counted(regex: str, names: tuple[str, ...]) -> frozenset[str]:
        asked.append(regex)
        return match(regex, names)

    async def work() -> None:
        await make(store, "a1")
        await asyncio.gather(topics.match(["a."]), topics.match(["a.", "("]))
        await topics.match(["(", "a."])
        assert sorted(asked) == ["(", "a."]
        with pytest.raises(InvalidRegularExpressionError, match="is not a valid regular expression"):
            topics.matching("(")
        before = topics.version
        await make(store, "a2")
        # Until it is matched anew, what it matched before, and when, is told.
        assert topics.matching("a.") == Matched(frozenset({"a1"}), before)
        await topics.match(["a."])
        assert topics.matching("a.") == Matched(frozenset({"a1", "a2"}), topics.version)

    monkeypatch.setattr(cluster_topics, "_match", counted)
    asyncio.run(work())


def test_the_latest_expressions_are_kept(store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_topics, "REGEXES_KEPT", 2)
    topics = ClusterTopics(store)

    async def work() -> None:
        await make(store, "a1")
        await topics.match(["a", "b", "c"])
        assert topics.matching("a") is None
        assert topics.matching("c") == Matched(frozenset(), topics.version)

    asyncio.run(work())
