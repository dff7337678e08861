"""Test that a leader of the target which does not answer holds up its own partitions only."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.keeping import sender
from kafkalog.mirror.keeping.sender import COMPARE_AFTER_S, KeptBatch, KeptSender, Place
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from kafkalog.records.batch import Record, encode_batch, read_header
from tests.kafkalog.client.support import config_for
from tests.support.scripted import ScriptedBroker, Silence, metadata

DEAD, LIVE = TopicPartition("t", 0), TopicPartition("t", 1)


class Leaders:
    """Two leaders, of `DEAD` and of `LIVE`; `produced` counts the batches that the live one has taken."""

    def __init__(self) -> None:
        self.produced = 0
        self.has_two = threading.Event()
        self.waited: list[bool] = []
        self.looked: list[int] = []
        """The number of batches that the live leader had each time the dead one was asked where the log ends."""
        self.dead = ScriptedBroker({ProduceRequest: self._hang_up, ListOffsetsRequest: self._say_nothing})
        self.live = ScriptedBroker({ProduceRequest: self.take})
        for broker in (self.dead, self.live):
            broker.handlers[MetadataRequest] = lambda _: metadata({0: self.dead, 1: self.live}, {DEAD: 0, LIVE: 1})

    def _hang_up(self, request: ProduceRequest) -> None:
        self.waited.append(self.has_two.wait(20))

    def _say_nothing(self, request: ListOffsetsRequest) -> Silence:
        self.looked.append(self.produced)
        return Silence()

    def take(self, request: ProduceRequest) -> ProduceResponse:
        (topic,) = request.topic_data
        (data,) = topic.partition_data
        self.produced += 1
        if self.produced == 2:
            self.has_two.set()
        taken = PartitionProduceResponse(index=data.index, base_offset=read_header(bytes(data.records)).base_sequence)
        return ProduceResponse(responses=[TopicProduceResponse(name=topic.name, partition_responses=[taken])])


@pytest.fixture
def leaders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Leaders]:
    monkeypatch.setattr(sender, "ANSWER_S", 0.2)
    monkeypatch.setattr(sender, "PATIENCE_S", 0.5)
    leaders = Leaders()
    with leaders.dead, leaders.live:
        yield leaders


def place(target: TopicPartition, *offsets: int) -> Place:
    made = Place(target, False, offsets[0])
    made.pending += [
        KeptBatch(encode_batch([Record(0, 1000, None, b"v")], base_offset=0), offset, offset + 1) for offset in offsets
    ]
    return made


def ends(tp: TopicPartition, offset: int) -> ListOffsetsResponse:
    end = ListOffsetsPartitionResponse(partition_index=tp.partition, offset=offset)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=tp.topic, partitions=[end])])


def test_the_others_have_what_they_get(leaders: Leaders) -> None:
    dead, live = place(DEAD, 5, 6), place(LIVE, 7, 8, 9)
    with Cluster(config_for(leaders.live)) as cluster:
        kept = KeptSender(cluster, 1)
        kept.deliver([dead, live])
        assert (live.end, len(live.pending), leaders.waited[0]) == (10, 0, True), "not one after the other"
        refused = dead.take_refused()
        assert refused is not None
        assert (refused.offset, refused.next_offset, dead.end) == (5, 6, 5)
        assert not dead.pending
        # It is tried again, beside the other one.
        dead.pending += place(DEAD, 5).pending
        live.pending += place(LIVE, 10).pending
        before = leaders.dead.seen[ProduceRequest]
        kept.deliver([dead, live])
        assert (live.end, leaders.dead.seen[ProduceRequest]) == (11, before), "nothing is sent to a dead leader"
        assert dead.take_refused() is not None
        assert leaders.looked[-1] == 4, "the others do not wait for the dead leader's answer"


def test_a_leader_that_hangs_is_given_up_before_its_request_times_out(leaders: Leaders) -> None:
    leaders.dead.handlers[ProduceRequest] = lambda _: Silence()
    dead, live = place(DEAD, 5), place(LIVE, 7)
    with Cluster(config_for(leaders.live, **{"request.timeout.ms": "600000"})) as cluster:
        sending = threading.Thread(target=KeptSender(cluster, 1).deliver, args=([dead, live],), daemon=True)
        sending.start()
        sending.join(30)
        assert not sending.is_alive()
    assert (live.end, dead.end) == (8, 5)
    assert dead.take_refused() is not None
    assert not leaders.looked, "its next try asks where the log ends"


def test_a_request_may_last_if_no_place_takes_records(leaders: Leaders) -> None:
    """A slow connection to the target is no leader that hangs."""
    timeouts: list[int] = []

    def slow(request: ProduceRequest) -> Silence | ProduceResponse:
        timeouts.append(request.timeout_ms)
        return leaders.take(request) if len(timeouts) == 2 else Silence()

    leaders.live.handlers[ProduceRequest] = slow
    leaders.live.handlers[ListOffsetsRequest] = lambda _: ends(LIVE, 7)
    live = place(LIVE, 7)
    with Cluster(config_for(leaders.live)) as cluster:
        KeptSender(cluster, 1).deliver([live])
    assert (live.end, live.take_refused()) == (8, None)
    assert timeouts[0] <= 500
    assert timeouts[1:] == [30_000], "the second try waits for request.timeout.ms"


def test_after_a_pause_the_end_of_the_log_is_compared_before_anything_is_sent(leaders: Leaders) -> None:
    """Apache Kafka forgets the producer after `producer.id.expiration.ms`, and takes any sequence number then."""
    now = 0.0
    found: list[int] = []
    leaders.live.handlers[ListOffsetsRequest] = lambda _: ends(LIVE, found[0])
    live = place(LIVE, 7)
    with Cluster(config_for(leaders.live)) as cluster:
        kept = KeptSender(cluster, 1, lambda: now)
        now = COMPARE_AFTER_S - 1
        kept.deliver([live])
        now += COMPARE_AFTER_S - 1
        live.pending += place(LIVE, 8).pending
        kept.deliver([live])
        assert leaders.live.seen[ListOffsetsRequest] == 0, "the producer was in use"
        now += COMPARE_AFTER_S + 1
        # Another process has written this.
        live.pending += place(LIVE, 9, 10, 11).pending
        found.append(11)
        kept.deliver([live])
    assert (live.end, leaders.produced, leaders.live.seen[ListOffsetsRequest]) == (12, 3, 1)
