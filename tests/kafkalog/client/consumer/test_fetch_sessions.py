"""Test the fetch sessions of a consumer (KIP-227): against a broker's side of them, and against real brokers."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.api.fetch.fetch_session import FetchSessionCache
from kafkalog.client.consumer import Consumer
from kafkalog.client.consumer.fetcher.fetch_sessions import FetchSessions
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.kafkalog.client.consumer.leaders import batch
from tests.kafkalog.client.consumer.support import Live, take
from tests.support.scripted import ScriptedBroker, metadata
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

VERSION = 12
"""The newest version with names of topics, because the metadata has no ids."""
PARTITIONS = [TopicPartition("t", number) for number in range(20)]
LOST = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class Leader:
    """A scripted broker with the sessions of ours.

    Attributes:
        ends: the end offset of each partition.
        requests: all requests of Fetch.
        refusals: the errors of the next responses.
    """

    def __init__(self) -> None:
        self.ends = dict.fromkeys(range(len(PARTITIONS)), 2)
        self.requests: list[FetchRequest] = []
        self.refusals: list[ErrorCode] = []
        self.cache = FetchSessionCache(10, chance=random.Random(1))
        self._changed = threading.Event()
        self.broker = ScriptedBroker({FetchRequest: self._fetch})
        leaders = {(tp.topic, tp.partition): 0 for tp in PARTITIONS}
        self.broker.handlers[MetadataRequest] = lambda request: metadata({0: self.broker}, leaders)

    def append(self, partition: int) -> None:
        """Add two records."""
        self.ends[partition] += 2
        self._changed.set()

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        self.requests.append(request)
        if self.refusals:
            return FetchResponse(error_code=self.refusals.pop(0))
        context = self.cache.context(VERSION, request, {}, time.monotonic())
        assert context is not None
        if context.error is not ErrorCode.NONE:
            return FetchResponse(error_code=context.error)
        topic = FetchableTopicResponse(topic="t")
        for state in context.partitions:
            end = self.ends[state.partition]
            records = batch(state.fetch_offset) if state.fetch_offset < end else b""
            if state.changed(0, end, 0, len(records)) or not context.incremental:
                topic.partitions.append(
                    PartitionData(
                        partition_index=state.partition,
                        high_watermark=end,
                        log_start_offset=0,
                        records=memoryview(records) if records else None,
                    )
                )
        if not topic.partitions:
            self._changed.wait(0.1)
            self._changed.clear()
        return FetchResponse(session_id=context.session_id, responses=[topic])


def named(request: FetchRequest) -> list[int]:
    return sorted(each.partition for topic in request.topics for each in topic.partitions)


@contextmanager
def reading() -> Iterator[tuple[Leader, Consumer]]:
    """A leader, and a consumer that has read all records of it."""
    leader = Leader()
    with leader.broker, Consumer({"bootstrap.servers": leader.broker.address, "retry.backoff.ms": 20}) as consumer:
        consumer.assign(PARTITIONS)
        for tp in PARTITIONS:
            consumer.seek(tp, 0)
        take(consumer, 2 * len(PARTITIONS))
        wait_until(lambda: not named(leader.requests[-1]), "a request names no partition")
        yield leader, consumer


def test_requests_name_what_has_changed() -> None:
    with reading() as (leader, consumer):
        assert leader.requests[-1].session_id != 0
        before = len(leader.requests)
        leader.append(7)
        assert [each.partition for each in take(consumer, 2)] == [7, 7]
        wait_until(lambda: len(leader.requests) > before + 3, "there were more requests")
        assert [named(each) for each in leader.requests[before:] if named(each)] == [[7]]
        consumer.assign(PARTITIONS[:5])
        wait_until(lambda: any(each.forgotten_topics_data for each in leader.requests), "some are forgotten")
        [forgotten] = next(each for each in leader.requests if each.forgotten_topics_data).forgotten_topics_data
        assert sorted(forgotten.partitions) == list(range(5, 20))


@pytest.mark.parametrize("error", LOST)
def test_a_lost_session_is_replaced_at_once(error: ErrorCode) -> None:
    with reading() as (leader, consumer):
        before = len(leader.requests)
        leader.refusals.append(error)
        wait_until(lambda: not leader.refusals, "the session is refused")
        leader.append(3)
        assert [each.partition for each in take(consumer, 2)] == [3, 3]
        again = next(each for each in leader.requests[before:] if each.session_epoch == 0)
        assert named(again) == list(range(20))
        assert (again.session_id == 0) is (error is ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        states = consumer._subscription.partitions.values()
        assert [each.tp for each in states if each.failures or each.retry_at] == []


@pytest.mark.parametrize("error", LOST)
def test_a_refused_first_request_is_no_lost_session(error: ErrorCode) -> None:
    """So its partitions pause, and the broker is not asked in a loop."""
    sessions = FetchSessions()
    sessions.build(0, {}, VERSION, 1000)
    assert sessions.answered(0, FetchResponse(error_code=error))
    sessions.build(0, {}, VERSION, 1000)
    assert sessions.answered(0, FetchResponse(session_id=5))
    assert sessions.build(0, {}, VERSION, 1000).session_epoch == 1
    assert not sessions.answered(0, FetchResponse(error_code=error))


class Reader:
    """Reads partitions of a topic to which it writes, and notes the offsets."""

    def __init__(self, live: Live, topic: str, consumer: Consumer) -> None:
        self._live, self._consumer = live, consumer
        self.partitions = [TopicPartition(topic, number) for number in range(12)]
        self.written = dict.fromkeys(self.partitions, 0)
        self.read: dict[TopicPartition, list[int]] = {tp: [] for tp in self.partitions}

    def write(self, tp: TopicPartition) -> None:
        self._live.produce(tp.topic, tp.partition, [b"v"] * 5)
        self.written[tp] += 5

    def catch_up(self, wanted: set[TopicPartition]) -> None:
        wait_until(lambda: self._has_caught_up(wanted), "all records are read")

    def _has_caught_up(self, wanted: set[TopicPartition]) -> bool:
        for record in self._consumer.poll(0.02):
            self.read[TopicPartition(record.topic, record.partition)].append(record.offset)
        return all(len(self.read[tp]) >= self.written[tp] for tp in wanted)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_asked_for_each_record_comes_once(live: Live, seed: int) -> None:
    chance = random.Random(seed)
    with live.consumer(fetch_max_wait_ms=50) as consumer:
        reader = Reader(live, live.topic(12), consumer)
        for _ in range(12):
            assigned = chance.sample(reader.partitions, chance.randint(1, 12))
            consumer.assign(assigned)
            for tp in assigned:
                if chance.random() < 0.2:
                    del reader.read[tp][chance.randint(0, len(reader.read[tp])) :]
                consumer.seek(tp, len(reader.read[tp]))
            paused = set(chance.sample(assigned, chance.randint(0, len(assigned) - 1)))
            consumer.pause(*paused)
            for tp in chance.sample(reader.partitions, 3):
                reader.write(tp)
            reader.catch_up(set(assigned) - paused)
            consumer.resume(*paused)
            reader.catch_up(set(assigned))
    for tp, offsets in reader.read.items():
        assert offsets == list(range(len(offsets))), tp
