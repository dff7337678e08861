"""Test that the planner does not take the metadata of a broker that lags for a deletion or a new topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

import pytest

from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from spark_kafkalog.driver import discovery as discovery_module
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.offsets import Position, topic_mark
from spark_kafkalog.options.source_options import SourceOptions
from tests.support.scripted import ScriptedBroker, metadata

OLD, NEW = UUID(int=1), UUID(int=2)
RECREATED_AFTER_S = 0.2
BOTH = frozenset({TopicPartition("t", 0), TopicPartition("t", 1)})


class Told(NamedTuple):
    """One answer: how many partitions topic "t" has (0: no such topic), its id, and where they end."""

    partitions: int
    topic_id: UUID = OLD
    end: int = 7


class Lagging:
    """A broker whose answers are told in turn; the last one stays."""

    def __init__(self, *told: Told) -> None:
        self.told = list(told)
        self.server = ScriptedBroker({ListOffsetsRequest: self._offsets})
        self.server.handlers[MetadataRequest] = self._describe
        self._now = self.told[0]
        self.moved: list[int] = []
        """Partitions that the broker denies to lead, once each."""

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        if request.topics != []:
            self._now = self.told.pop(0) if len(self.told) > 1 else self.told[0]
        named = {each.name for each in request.topics or () if each.name}
        known = [("t", number) for number in range(self._now.partitions)] + [("other", 0)]
        leaders = {each: 1 for each in known if not named or each[0] in named}
        answer = metadata({1: self.server}, leaders)
        for topic in answer.topics:
            topic.topic_id = self._now.topic_id if topic.name == "t" else UUID(int=9)
        return answer

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name=topic.name,
                    partitions=[
                        ListOffsetsPartitionResponse(
                            partition_index=each.partition_index,
                            offset=self._now.end,
                            error_code=self._denies(each.partition_index),
                        )
                        for each in topic.partitions
                    ],
                )
                for topic in request.topics
            ]
        )

    def _denies(self, partition: int) -> ErrorCode:
        if partition not in self.moved:
            return ErrorCode.NONE
        self.moved.remove(partition)
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    @property
    def asked(self) -> int:
        return self.server.seen[MetadataRequest]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask again and again, so that a broker that lags has the time to catch up on a busy machine."""
    monkeypatch.setattr(discovery_module, "_CONFIRM_EVERY_S", 0.01)
    monkeypatch.setattr(discovery_module, "RECREATED_AFTER_S", 60.0)
    monkeypatch.setattr(discovery_module, "GONE_AFTER_S", 60.0)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch, patient: None) -> None:
    """Believe soon what contradicts the position."""
    monkeypatch.setattr(discovery_module, "RECREATED_AFTER_S", RECREATED_AFTER_S)
    monkeypatch.setattr(discovery_module, "GONE_AFTER_S", 0.4)


def read(*partitions: TopicPartition, mark: UUID = OLD) -> Position:
    """Return a position in these partitions."""
    text = topic_mark(mark)
    assert text is not None
    return Position(dict.fromkeys(partitions, 5), {"t": text})


def found(broker: Lagging, known: Position, **options: str) -> Iterator[Position]:
    """Yield the result of each call."""
    given = options or {"subscribe": "t"}
    discovery = Discovery(SourceOptions.parse({"kafka.bootstrap.servers": broker.server.address, **given}))
    with broker.server:
        while True:
            try:
                yield discovery.latest(known, {"t"})
            finally:
                discovery.close()


STRATEGIES = [{"subscribe": "t"}, {"subscribePattern": "^t$"}, {"assign": '{"t":[0,1]}'}]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: next(iter(each)))
def test_a_broker_that_does_not_know_a_new_partition_yet(strategy: dict[str, str]) -> None:
    broker = Lagging(Told(1), Told(1), Told(1), Told(2))
    position = next(found(broker, read(*BOTH), **strategy))
    assert position.offsets == dict.fromkeys(BOTH, 7)


def test_a_broker_that_lags_while_the_ends_are_asked_for() -> None:
    """The leader of a partition has moved. The metadata that is fetched then lacks the partition."""
    broker = Lagging(Told(2), *[Told(1)] * 9, Told(2))
    broker.moved = [1]
    quick = {"kafka.retry.backoff.ms": "1", "kafka.retry.backoff.max.ms": "1"}
    position = next(found(broker, read(*BOTH), subscribe="t", **quick))
    assert not broker.moved
    assert position.offsets == dict.fromkeys(BOTH, 7)


def test_a_listing_that_lacks_a_topic_for_a_moment() -> None:
    broker = Lagging(Told(0), Told(0), Told(2))
    position = next(found(broker, read(*BOTH), subscribePattern="^t$"))
    assert position.offsets == dict.fromkeys(BOTH, 7)


def test_a_broker_that_tells_the_id_of_a_topic_before_it_was_created_again() -> None:
    broker = Lagging(Told(2, OLD), Told(2, OLD), Told(2, NEW))
    position = next(found(broker, read(*BOTH, mark=NEW)))
    assert position.topics == read(mark=NEW).topics


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda each: next(iter(each)))
def test_a_partition_that_is_gone_is_confirmed_once(strategy: dict[str, str]) -> None:
    broker = Lagging(Told(1))
    positions = found(broker, read(*BOTH), **strategy)
    for _ in range(2):
        before = broker.asked
        assert next(positions).offsets == {TopicPartition("t", 0): 7}
    assert broker.asked - before <= 2, "the second call does not doubt it again"


@pytest.mark.usefixtures("impatient")
def test_a_topic_that_was_created_again_is_confirmed_once() -> None:
    broker = Lagging(Told(1, NEW))
    positions = found(broker, read(*BOTH))
    for _ in range(2):
        before = broker.asked
        assert next(positions) == Position({TopicPartition("t", 0): 7}, read(mark=NEW).topics)
    assert broker.asked - before <= 2, "the second call does not doubt it again"


def test_an_end_before_what_was_read_is_asked_for_again_over_a_new_connection() -> None:
    broker = Lagging(*[Told(2, end=3)] * 4, Told(2))
    assert next(found(broker, read(*BOTH))).offsets == dict.fromkeys(BOTH, 7)
    assert broker.server.connections == 5


@pytest.mark.usefixtures("impatient")
def test_an_end_before_what_was_read_is_confirmed_once() -> None:
    broker = Lagging(Told(2, end=3))
    positions = found(broker, read(*BOTH))
    began = time.monotonic()
    assert next(positions).offsets == dict.fromkeys(BOTH, 3)
    assert time.monotonic() - began >= RECREATED_AFTER_S
    before = broker.asked
    assert next(positions).offsets == dict.fromkeys(BOTH, 3)
    assert broker.asked - before <= 2, "the second call does not doubt it again"


def test_warnings_name_what_is_in_doubt(caplog: pytest.LogCaptureFixture) -> None:
    for lagging, told in (
        (Lagging(Told(2, end=3), Told(2)), "lie before what is known (known offset, end): t-0: 5, 3; t-1: 5, 3"),
        (Lagging(Told(1), Told(2)), "so they are asked again: partition t-1"),
        (Lagging(Told(2, NEW), Told(2)), f"so they are asked again: topic t has the id {topic_mark(NEW)} now"),
    ):
        caplog.clear()
        next(found(lagging, read(*BOTH)))
        # Of the messages only: PySpark's loggers may have given pytest's handlers a format of their own.
        assert any(message.endswith(told) for message in caplog.messages), told


def test_a_topic_that_the_options_no_longer_name() -> None:
    broker = Lagging(Told(2))
    position = next(found(broker, read(*BOTH), subscribe="other"))
    assert position.offsets == {TopicPartition("other", 0): 7}
    assert broker.asked <= 2


@pytest.mark.usefixtures("impatient")
def test_topics_that_are_gone_are_waited_for_together() -> None:
    broker = Lagging(Told(0))
    named: list[set[str | None]] = []
    describe = broker.server.handlers[MetadataRequest]

    def note(request: MetadataRequest) -> MetadataResponse:
        named.append({each.name for each in request.topics or ()})
        answer = describe(request)
        assert isinstance(answer, MetadataResponse)
        return answer

    broker.server.handlers[MetadataRequest] = note
    names = {"t", "u", "v"}
    options = SourceOptions.parse({"kafka.bootstrap.servers": broker.server.address, "subscribe": ",".join(names)})
    discovery = Discovery(options)
    with broker.server:
        try:
            assert not discovery.assigned(names).partitions
            asked = [each for each in named if each]
            assert len(asked) > 1, "a broker that lags has another try"
            assert all(each == names for each in asked)
            named.clear()
            assert not discovery.assigned(names).partitions
            assert named == [names], "the second call does not wait for them"
        finally:
            discovery.close()
