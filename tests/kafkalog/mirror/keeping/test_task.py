"""Test that records come once and in place, whatever several tasks believe that write to one partition."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.transactions.requests import TransactionRequests
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying.batching.joining import JOINED_BYTES
from kafkalog.mirror.keeping.errors import KeepingError, OffsetsIgnoredError, TargetLostRecordsError
from kafkalog.mirror.keeping.sender import MAX_REQUEST_BATCHES, KeptBatch, Place
from kafkalog.mirror.keeping.task import KeptTask
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.produce import ProduceRequest
from kafkalog.records.batch import read_header
from tests.kafkalog.mirror.conftest import Clusters, read_all
from tests.kafkalog.mirror.keeping.batches import STEP, batch
from tests.kafkalog.mirror.writing import make, write
from tests.support.scripted import ScriptedBroker, metadata, taken

COUNT = 300


def producer_id(clusters: Clusters, settings: MirrorSettings) -> int:
    with TransactionRequests(ClientConfig.from_dict(clusters.client("target")), settings.keeping_id) as requests:
        return requests.init().producer_id


@pytest.fixture
def settings(clusters: Clusters, alias: str) -> MirrorSettings:
    return MirrorSettings.of({}, alias, "target", (clusters.client("source"), clusters.client("target")))[0]


TAKEN = [(True, 0), (False, 0), (False, JOINED_BYTES)]
"""Pairs: true if a place takes stated offsets; the largest batch of joined ones, in bytes."""


@pytest.mark.parametrize(("stated", "most"), TAKEN)
def test_two_owners_of_a_partition_write_each_record_once(
    clusters: Clusters, settings: MirrorSettings, alias: str, stated: bool, most: int
) -> None:
    """Both begin at the same position, and each believes that it is alone."""
    tp, remote = TopicPartition("words", 0), f"{alias}.words"
    make(clusters.target, remote, 1, **({"kafkalog_mirror_source": alias} if stated else {}))
    # Each asks for the producer id by itself, and gets the same one.
    tasks = [
        KeptTask(settings, {tp: Place(TopicPartition(remote, 0), stated, 0, most)}, producer_id(clusters, settings))
        for _ in range(2)
    ]
    try:
        for task in tasks:
            task.start()
        for first in range(0, COUNT, STEP):
            for task in tasks:
                task.send(tp, batch(first, stated))
                task.advance(tp, first + STEP)
        for task in tasks:
            assert task.commit()[tp].next_offset == COUNT
    finally:
        for task in tasks:
            task.close()
    (found,) = read_all(clusters.target, remote, COUNT).values()
    assert [(record.offset, record.value) for record in found] == [(at, b"%d" % at) for at in range(COUNT)]


@pytest.mark.parametrize(("stated", "most"), TAKEN)
def test_who_comes_back_late_changes_nothing(
    clusters: Clusters, settings: MirrorSettings, alias: str, stated: bool, most: int
) -> None:
    """A process that stood still sends what others have sent since."""
    tp, remote = TopicPartition("words", 0), f"{alias}.words"
    make(clusters.target, remote, 1, **({"kafkalog_mirror_source": alias} if stated else {}))
    shared = producer_id(clusters, settings)
    places = [Place(TopicPartition(remote, 0), stated, 0, most) for _ in range(2)]
    slow, quick = (KeptTask(settings, {tp: place}, shared) for place in places)
    try:
        quick.start()
        for first in range(0, COUNT, STEP):
            quick.send(tp, batch(first, stated))
            quick.advance(tp, first + STEP)
            quick.commit()
        slow.start()
        for first in range(0, COUNT + STEP, STEP):
            slow.send(tp, batch(first, stated))
            slow.advance(tp, first + STEP)
        slow.commit()
    finally:
        quick.close()
        slow.close()
    (found,) = read_all(clusters.target, remote, COUNT + STEP).values()
    assert [(record.offset, record.value) for record in found] == [(at, b"%d" % at) for at in range(COUNT + STEP)]


def test_a_gap_is_refused_where_offsets_are_not_stated(
    clusters: Clusters, settings: MirrorSettings, alias: str
) -> None:
    tp, remote = TopicPartition("words", 0), f"{alias}.words"
    make(clusters.target, remote)
    task = KeptTask(settings, {tp: Place(TopicPartition(remote, 0), False, 0)}, producer_id(clusters, settings))
    try:
        task.start()
        task.send(tp, batch(0, False))
        with pytest.raises(KeepingError, match="no record to mirror at offset 5"):
            task.send(tp, batch(10, False))
        within = batch(STEP, False)._replace(offsets=((STEP, 2), (STEP + 3, 3)))
        with pytest.raises(KeepingError, match="no record to mirror at offset 7"):
            task.send(tp, within)
        with pytest.raises(KeepingError, match="has gone back from offset 5 to 0"):
            task.send(tp, batch(0, False))
        task.commit()
    finally:
        task.close()
    assert len(read_all(clusters.target, remote, STEP)[0]) == STEP


def test_a_leader_that_does_not_take_stated_offsets_is_sent_nothing(settings: MirrorSettings, alias: str) -> None:
    """Apache Kafka ignores where the log has to end: it would append a batch after another one, or twice."""
    tp, remote = TopicPartition("words", 0), TopicPartition(f"{alias}.words", 0)
    with ScriptedBroker({ProduceRequest: taken}) as broker:
        broker.handlers[MetadataRequest] = lambda _: metadata({7: broker}, {(remote.topic, remote.partition): 7})
        target = replace(settings, target_client={"bootstrap.servers": broker.address})
        task = KeptTask(target, {tp: Place(remote, True, 0)}, -1)
        try:
            task.start()
            task.send(tp, batch(0, True))
            with pytest.raises(
                OffsetsIgnoredError, match="the leader, broker 7, takes no records at the offsets"
            ) as raised:
                task.commit()
        finally:
            task.close()
        assert "Move these partitions to brokers of kafkalog, or use --offsets translate" in str(raised.value)
        assert not broker.seen[ProduceRequest]


def test_a_foreign_writer_is_noticed(clusters: Clusters, settings: MirrorSettings, alias: str) -> None:
    """It writes between two batches of the mirror, where the target cannot refuse it."""
    tp, remote = TopicPartition("words", 0), f"{alias}.words"
    make(clusters.target, remote)
    task = KeptTask(settings, {tp: Place(TopicPartition(remote, 0), False, 0)}, producer_id(clusters, settings))
    try:
        task.start()
        task.send(tp, batch(0, False))
        task.advance(tp, STEP)
        task.commit()
        write(clusters.target, remote, range(1))
        task.send(tp, batch(STEP, False))
        with pytest.raises(KeepingError, match="the offset 6: others write there, too"):
            task.commit()
    finally:
        task.close()


def test_a_request_has_no_more_batches_than_a_broker_takes() -> None:
    place = Place(TopicPartition("words", 0), True, 0)
    place.pending += [KeptBatch(bytearray(10), offset, offset + 1) for offset in range(2 * MAX_REQUEST_BATCHES)]
    assert len(place.upto(1 << 20)) == MAX_REQUEST_BATCHES


def test_numbered_batches_are_joined_for_a_request_and_stay_what_they_are() -> None:
    """Another process, which joins them otherwise, may have written some of them."""
    place = Place(TopicPartition("words", 0), False, 0, JOINED_BYTES)
    place.pending += [KeptBatch(batch(first, False).data, first, first + STEP) for first in range(0, 4 * STEP, STEP)]
    (one,) = place.upto(1)
    assert (one.base_offset, one.next_offset) == (0, 4 * STEP)
    assert read_header(one.data).records_count == 4 * STEP
    place.acknowledge(STEP)
    (rest,) = place.upto(1)
    assert (rest.base_offset, rest.next_offset) == (STEP, 4 * STEP)
    place.acknowledge(rest.next_offset)
    assert not place.pending


def test_what_a_place_has_is_not_sent_again() -> None:
    place = Place(TopicPartition("words", 0), True, 10)
    bounds = [10, 12, 15, 20]
    place.pending += [KeptBatch(bytearray(10), one, other) for one, other in pairwise(bounds)]
    assert [each.base_offset for each in place.upto(20)] == [10, 12]
    assert [each.base_offset for each in place.upto(1)] == [10]
    place.acknowledge(15)
    assert [each.base_offset for each in place.pending] == [15]
    with pytest.raises(TargetLostRecordsError):
        place.acknowledge(14)
    with pytest.raises(KeepingError, match="within a batch"):
        place.acknowledge(17)
