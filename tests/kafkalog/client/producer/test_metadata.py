"""Test which topics' metadata the producer asks for, when, and what it makes of the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError, ConnectionFailedError
from kafkalog.client.metadata import ClusterMetadata, from_response
from kafkalog.client.producer import Producer
from kafkalog.client.producer.accumulator import Accumulator
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.sender import topic_metadata
from kafkalog.protocol.errors import ErrorCode, KafkaError, UnknownTopicOrPartitionError
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseTopic
from kafkalog.protocol.messages.produce import ProduceRequest, ProduceResponse
from kafkalog.records.batch import iter_headers
from tests.support.scripted import ScriptedBroker, metadata, taken
from tests.support.waiting import wait_until

DEADLINE_S = 60.0


class Site:
    """A broker that leads the only partition of each topic; `codes` are the errors of topics in metadata.

    Attributes:
        asked: The requests for metadata, in order.
        sequences: The first sequence number of each batch, by topic.
    """

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self.asked: list[MetadataRequest] = []
        self.sequences: dict[str, list[int]] = {}
        self.broker = ScriptedBroker(
            {
                MetadataRequest: self._describe,
                InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=7),
                ProduceRequest: self._take,
            }
        )

    def _take(self, request: ProduceRequest) -> ProduceResponse:
        for topic in request.topic_data:
            for data in topic.partition_data:
                found = [header.base_sequence for _, header in iter_headers(data.records or b"")]
                self.sequences.setdefault(topic.name, []).extend(found)
        return taken(request)

    def names(self, place: int) -> list[str]:
        """Return the topics in a request for metadata."""
        return [topic.name or "" for topic in self.asked[place].topics or []]

    def _describe(self, request: MetadataRequest) -> MetadataResponse:
        self.asked.append(request)
        names = [topic.name or "" for topic in request.topics or []]
        found = metadata({1: self.broker}, {(name, 0): 1 for name in names if name not in self.codes})
        found.topics += [
            MetadataResponseTopic(name=name, error_code=self.codes[name]) for name in names if name in self.codes
        ]
        return found


@pytest.fixture
def site() -> Iterator[Site]:
    made = Site()
    with made.broker:
        yield made


@pytest.fixture
def start(site: Site) -> Iterator[Callable[..., Producer]]:
    started: list[Producer] = []

    def make(**properties: Any) -> Producer:
        named = {name.replace("_", "."): value for name, value in properties.items()}
        started.append(Producer({"bootstrap.servers": site.broker.address, **named}))
        return started[-1]

    yield make
    for producer in started:
        producer.close(0.0)


def test_an_unknown_error_of_one_topic_fails_no_other(site: Site, start: Callable[..., Producer]) -> None:
    """As of a newer broker."""
    site.codes["bad"] = 999
    producer = start()
    error = producer.send("bad", b"x").exception(DEADLINE_S)
    assert isinstance(error, KafkaError)
    assert "topic bad" in str(error)
    assert "999" in str(error)
    producer.send("good", b"x").result(DEADLINE_S)


def left_out(site: Site, producer: Producer, topic: str) -> int:
    """Use another topic until metadata is asked for without `topic`; return how many requests there were then."""
    begun = len(site.asked)

    def is_left_out() -> bool:
        producer.send("used", b"x").result(DEADLINE_S)
        return any(topic not in site.names(place) for place in range(begun, len(site.asked)))

    producer.send("used", b"x").result(DEADLINE_S)
    begun = len(site.asked)
    wait_until(is_left_out, f"metadata is asked for without {topic}")
    return len(site.asked)


def test_an_idle_topic_is_asked_for_no_more_until_it_is_used(site: Site, start: Callable[..., Producer]) -> None:
    producer = start(metadata_max_age_ms=20, metadata_max_idle_ms=50)
    producer.send("idle", b"first").result(DEADLINE_S)
    begun = left_out(site, producer, "idle")
    assert "idle" not in producer.known_partitions()
    producer.send("idle", b"second").result(DEADLINE_S)
    assert any("idle" in site.names(place) for place in range(begun, len(site.asked)))
    # A broker would take another batch with the number 0 for the first one.
    assert site.sequences["idle"] == [0, 1]


def test_a_deleted_topic_is_not_created_by_the_next_refresh(site: Site, start: Callable[..., Producer]) -> None:
    producer = start(metadata_max_age_ms=20)
    producer.send("t", b"first").result(DEADLINE_S)
    begun = len(site.asked)
    site.codes["t"] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    end = left_out(site, producer, "t")
    asked = [site.asked[place] for place in range(begun, end) if "t" in site.names(place)]
    assert not any(request.allow_auto_topic_creation for request in asked)
    assert "t" not in producer.known_partitions()
    # What is sent creates it, as the first record did.
    site.codes.clear()
    producer.send("t", b"second").result(DEADLINE_S)
    assert any(
        "t" in site.names(place) and site.asked[place].allow_auto_topic_creation
        for place in range(end, len(site.asked))
    )


def test_a_partition_that_was_just_added_is_waited_for(site: Site, start: Callable[..., Producer]) -> None:
    """The brokers learn of it one after the other. Java's producer waits, too (`KafkaProducer.waitOnMetadata`)."""
    answers: list[int] = []

    def describe(request: MetadataRequest) -> MetadataResponse:
        answers.append(1 if len(answers) < 4 else 2)
        names = [topic.name or "" for topic in request.topics or []]
        return metadata({1: site.broker}, {(name, number): 1 for name in names for number in range(answers[-1])})

    site.broker.handlers[MetadataRequest] = describe
    producer = start()
    producer.send("t", b"x", partition=0).result(DEADLINE_S)
    assert answers == [1]
    assert producer.send("t", b"x", partition=1).result(DEADLINE_S).partition == 1
    assert answers == [1, 1, 1, 1, 2]
    error = producer.send("t", b"x", partition=2).exception(DEADLINE_S)
    assert isinstance(error, UnknownTopicOrPartitionError)
    assert error.message == "topic t has no partition 2, its last is 1"
    assert producer.send("t", b"x", partition=1).result(DEADLINE_S).partition == 1


def test_nobody_asks_for_a_topic_that_nobody_waits_for(site: Site, start: Callable[..., Producer]) -> None:
    site.codes["odd"] = ErrorCode.LEADER_NOT_AVAILABLE
    producer = start(metadata_max_age_ms=20, metadata_max_idle_ms=50, max_block_ms=200)
    wait_until(lambda: producer.send("used", b"x").exception(DEADLINE_S) is None, "the broker answers")
    assert isinstance(producer.send("odd", b"x").exception(DEADLINE_S), ClientTimeoutError)
    left_out(site, producer, "odd")


class Clock:
    """A time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


class Refreshes:
    """The topics of a producer whose thread is the test, and a cluster that answers with `leader`; None: it is away."""

    def __init__(self, clock: Clock) -> None:
        self.leader: int | None = None
        self.times: list[float] = []
        self.creating: list[bool] = []
        self._clock = clock
        config = ProducerConfig.from_dict({"bootstrap.servers": "localhost:9092", "metadata.max.age.ms": 10**9})
        self.accumulator = Accumulator(config, lambda: None)
        self.topics = topic_metadata.Topics(
            config, cast(Cluster, SimpleNamespace(metadata=self._answer)), self.accumulator
        )

    def _answer(self, names: list[str], *, allow_auto_topic_creation: bool, **_: Any) -> ClusterMetadata:
        self.times.append(self._clock.now)
        self.creating.append(allow_auto_topic_creation)
        if self.leader is None:
            raise ConnectionFailedError("nobody is there")
        return from_response(metadata({}, {("t", 0): self.leader}), names)

    def run(self, seconds: float) -> int:
        """Ask whenever it is due; return how often that was."""
        before, end = len(self.times), self._clock.now + seconds
        while (due := max(self.topics.due({"t"}), self._clock.now)) < end:
            self._clock.now = due
            self.topics.refresh_if_due({"t"}, float("inf"))
        self._clock.now = end
        return len(self.times) - before


@pytest.mark.parametrize("leader", [None, -1], ids=["no answer", "no leader"])
def test_requests_in_vain_thin_out(monkeypatch: pytest.MonkeyPatch, leader: int | None) -> None:
    """As in Java since KIP-580: up to `retry.backoff.max.ms` lies between them."""
    clock = Clock()
    monkeypatch.setattr(topic_metadata, "time", clock)
    refreshes = Refreshes(clock)
    refreshes.topics.states["t"] = topic_metadata.TopicState("t", 1)
    refreshes.topics.states["t"].waiting = 1
    refreshes.leader = leader
    assert refreshes.run(1.0) >= 8
    refreshes.run(4.0)
    assert 45 <= refreshes.run(60.0) <= 76
    # A leader is news, and the next one is looked for as fast as the first.
    refreshes.leader = 1
    while not refreshes.topics.states["t"].available:
        refreshes.run(0.05)
    refreshes.leader = leader
    assert refreshes.run(1.0) >= 8


def test_a_topic_that_nobody_waits_long_for_is_created(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by delivery callbacks, and by applications that must not block."""
    clock = Clock()
    monkeypatch.setattr(topic_metadata, "time", clock)
    refreshes = Refreshes(clock)
    refreshes.accumulator.sender_thread = threading.get_ident()
    with pytest.raises(ClientTimeoutError):
        refreshes.topics.wait_for("t")
    refreshes.topics.refresh_if_due(set(), float("inf"))
    assert refreshes.creating == [True]
