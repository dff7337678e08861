"""Test that members whose expressions were matched before do not wait for a slow match."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import UUID

import pytest

from broker.coordinator.group.kip848.config import ConsumerGroupConfig
from broker.coordinator.group.kip848.consumer_groups import ConsumerGroups
from broker.coordinator.group.kip848.consumer_membership import ConsumerMembership
from broker.coordinator.group.kip848.model import NO_PARTITIONS
from broker.coordinator.group.kip848.topics import cluster_topics
from broker.metadata.model import PartitionState, TopicState
from broker.metadata.operations import CreateTopic
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.broker.coordinator.group.classic.classic_world import SESSION_MS
from tests.broker.coordinator.group.running import DEADLINE_S, Running, Start


class Matching:
    """Groups with a member each, over topics; expressions that begin with `slow` wait to be let go."""

    def __init__(self, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
        self.running: Running = start(offsets_topic_num_partitions="1")
        self.consumers = ConsumerGroups(self.running.groups, self.running.parts.cache)
        self.may_end = threading.Event()
        self.matched: list[str] = []
        match = cluster_topics._match

        def slow(regex: str, names: tuple[str, ...]) -> frozenset[str]:
            if regex.startswith("slow"):
                assert self.may_end.wait(DEADLINE_S)
            self.matched.append(regex)
            return match(regex, names)

        monkeypatch.setattr(cluster_topics, "_match", slow)
        # The topics are compared with each heartbeat.
        monkeypatch.setattr(ConsumerGroups, "config", lambda *_: ConsumerGroupConfig(regex_refresh_ms=0))
        self.running.ready()

    async def make(self, *names: str) -> None:
        for name in names:
            topic = TopicState(name, UUID(bytes=name.encode().rjust(16)), (PartitionState((0,), (0,), 0, 0),), {})
            await self.running.parts.store.commit(lambda state, topic=topic: [CreateTopic(topic)])  # type: ignore[misc]

    async def heartbeat(self, group: str, epoch: int, regex: str | None = None) -> Any:
        request = ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=epoch, rebalance_timeout_ms=SESSION_MS if epoch == 0 else -1,
            subscribed_topic_regex=regex, topic_partitions=[] if epoch == 0 else None,
        )  # fmt: skip
        response = await self.consumers.heartbeat(request, 1, "client", "/host", NO_PARTITIONS if epoch == 0 else None)
        assert response.error_code == ErrorCode.NONE
        return response

    def membership(self, group: str) -> ConsumerMembership:
        membership = self.running.groups.partition_groups_for(group).groups[group].membership
        assert isinstance(membership, ConsumerMembership)
        return membership

    def subscribed(self, group: str) -> frozenset[str]:
        return self.membership(group).group.all_subscribed()


def test_heartbeats_do_not_wait_for_expressions_that_were_matched_before(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = Matching(start, monkeypatch)

    async def work() -> None:
        await world.make("a1")
        epoch = (await world.heartbeat("g", 0, "a.")).member_epoch
        hostile = [asyncio.ensure_future(world.heartbeat("h", 0, f"slow{number}")) for number in range(3)]
        await asyncio.sleep(0)
        await world.make("a2")
        # The worker is busy: what was matched before holds.
        for regex in (None, "a.", None):
            response = await world.heartbeat("g", epoch, regex)
            assert response.member_epoch == epoch
        assert not world.may_end.is_set()
        assert world.subscribed("g") == {"a1"}
        world.may_end.set()
        # The group has its turn after the one that is under way.
        while world.subscribed("g") != {"a1", "a2"}:
            epoch = (await world.heartbeat("g", epoch)).member_epoch
            await asyncio.sleep(0.001)
        await asyncio.gather(*hostile)
        # What comes after these is matched anew, for there are other topics.
        assert world.matched[:5] == ["a.", "slow0", "slow1", "a.", "slow2"]

    world.running.run(work())
    world.running.groups.stop()


def test_what_was_matched_for_a_group_waits_for_its_heartbeat(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster_topics, "REGEXES_KEPT", 1)
    world = Matching(start, monkeypatch)

    async def work() -> None:
        await world.make("a1", "b1")
        epochs = {name: (await world.heartbeat(name, 0, f"{name}.")).member_epoch for name in ("a", "b")}
        await world.make("a2", "b2")
        for name, epoch in epochs.items():
            await world.heartbeat(name, epoch)
        while world.matched != ["a.", "b."] * 2:
            await asyncio.sleep(0.001)
        while any(world.membership(name).is_matching for name in epochs):
            await asyncio.sleep(0.001)
        for name, epoch in epochs.items():
            await world.heartbeat(name, epoch)
            assert world.subscribed(name) == {f"{name}1", f"{name}2"}
        assert world.matched == ["a.", "b."] * 2

    world.running.run(work())
    world.running.groups.stop()


def test_an_expression_that_is_good_no_more_keeps_its_topics(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    world = Matching(start, monkeypatch)
    match = cluster_topics._match

    def fails(regex: str, names: tuple[str, ...]) -> frozenset[str]:
        return match("(" if "a2" in names else regex, names)

    monkeypatch.setattr(cluster_topics, "_match", fails)

    async def work() -> None:
        await world.make("a1")
        epoch = (await world.heartbeat("g", 0, "a.")).member_epoch
        await world.make("a2")
        while len(world.matched) < 2:
            assert (await world.heartbeat("g", epoch)).member_epoch == epoch
            await asyncio.sleep(0.001)
        assert (await world.heartbeat("g", epoch)).member_epoch == epoch
        assert world.subscribed("g") == {"a1"}

    world.running.run(work())
    world.running.groups.stop()
