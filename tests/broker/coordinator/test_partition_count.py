"""Test how the partitions of a coordinator's topic are counted: once, by the cluster's registry where there is one."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable

import pytest

from broker.coordinator.partition_count import CountedPartitions, ReadCount
from broker.metadata.model import NO_TOPIC_ID, PartitionCount, PartitionState, TopicState
from broker.zookeeper.interface import ZooKeeperError

TOPIC = "__consumer_offsets"
ONE, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
WITHIN_S = 10.0


class World:
    """A broker's view of the topic, and a registry that answers when it is told to."""

    def __init__(self) -> None:
        self.state: TopicState | None = None
        self.answer: PartitionCount | Exception | None = None
        self.may_answer = asyncio.Event()
        self.reads = 0

    def shows(self, partitions: int, topic_id: uuid.UUID = ONE) -> None:
        each = PartitionState(replicas=(0,), isr=(0,), leader=0)
        self.state = TopicState(TOPIC, topic_id, (each,) * partitions)

    async def read(self, topic: str) -> PartitionCount | None:
        assert topic == TOPIC
        self.reads += 1
        await self.may_answer.wait()
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def counted(self, read: ReadCount | None) -> CountedPartitions:
        return CountedPartitions(TOPIC, lambda: self.state, asyncio.get_running_loop(), read)


def run(scenario: Callable[[World], Awaitable[None]]) -> None:
    async def within() -> None:
        async with asyncio.timeout(WITHIN_S):
            await scenario(World())

    asyncio.run(within())


def test_a_lone_broker_keeps_the_number_when_the_topic_grows() -> None:
    async def scenario(world: World) -> None:
        counted = world.counted(None)
        assert counted.number is None
        world.shows(3)
        assert counted.number == 3
        world.shows(5)
        assert counted.number == 3
        world.shows(5, OTHER)
        assert counted.number == 5

    run(scenario)


def test_in_a_cluster_the_registry_counts_and_is_asked_once() -> None:
    async def scenario(world: World) -> None:
        counted = world.counted(world.read)
        # The controller has told this broker about one partition of four so far.
        world.shows(1)
        world.answer = PartitionCount(ONE, 4)
        assert counted.number is None
        assert await counted.settled(0) is None
        world.may_answer.set()
        assert await counted.settled(WITHIN_S) == 4
        assert await counted.settled(0) == 4
        assert world.reads == 1

    run(scenario)


@pytest.mark.parametrize("failure", [ZooKeeperError("the session is lost"), OSError("unreachable")])
def test_a_read_that_fails_is_logged_and_tried_again(failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(world: World) -> None:
        counted = world.counted(world.read)
        world.shows(1)
        world.may_answer.set()
        world.answer = failure
        assert await counted.settled(WITHIN_S) is None
        world.answer = PartitionCount(ONE, 4)
        assert await counted.settled(WITHIN_S) == 4

    with caplog.at_level(logging.WARNING):
        run(scenario)
    assert caplog.messages == [f"The partitions of {TOPIC} cannot be counted yet: {failure}"]


def test_a_topic_that_is_created_again_is_counted_again() -> None:
    async def scenario(world: World) -> None:
        counted = world.counted(world.read)
        world.may_answer.set()
        for topic_id, partitions in ((ONE, 4), (OTHER, 6)):
            world.shows(1, topic_id)
            world.answer = PartitionCount(topic_id, partitions)
            assert await counted.settled(WITHIN_S) == partitions
        assert world.reads == 2

    run(scenario)


def test_an_id_that_becomes_known_is_that_of_the_counted_topic() -> None:
    async def scenario(world: World) -> None:
        counted = world.counted(world.read)
        counted.set(PartitionCount(NO_TOPIC_ID, 4))
        world.shows(1, ONE)
        assert counted.number == 4
        world.answer = PartitionCount(OTHER, 6)
        world.may_answer.set()
        world.shows(1, OTHER)
        assert await counted.settled(WITHIN_S) == 6
        assert world.reads == 1

    run(scenario)


def test_nothing_is_read_after_the_end() -> None:
    async def scenario(world: World) -> None:
        counted = world.counted(world.read)
        world.shows(1)
        assert counted.number is None
        await asyncio.sleep(0)
        await counted.close()
        assert counted.number is None
        assert await counted.settled(WITHIN_S) is None
        assert world.reads == 1

    run(scenario)
