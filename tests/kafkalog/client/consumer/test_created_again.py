"""Test that a position in a topic is not taken for one in another topic of the same name."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, OffsetOutOfRangeError, UnknownTopicOrPartitionError
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.schema import ZERO_UUID
from tests.kafkalog.client.consumer.recreated import NEW, OLD, TP, Topic, offsets, reading
from tests.kafkalog.client.consumer.support import DEADLINE_S, Live, take, values
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


def create_again(live: Live, topic: str, partitions: int = 1) -> None:
    with Admin({"bootstrap.servers": live.address}) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), "the topic is gone")
        admin.create_topics([NewTopic(topic, partitions, 1)])


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_new_topic_is_read_from_its_beginning(live: Live, partitions: int) -> None:
    """Each partition of the new topic is longer than the position in the old one."""
    topic = live.topic(partitions)
    for number in range(partitions):
        live.produce(topic, number, values(3, "old"))
    with live.consumer(metadata_max_age_ms=200) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
        take(consumer, 3 * partitions)
        create_again(live, topic, partitions)
        for number in range(partitions):
            live.produce(topic, number, values(5, "new"))
        found = take(consumer, 5 * partitions)
    for number in range(partitions):
        assert [(each.offset, each.value) for each in found if each.partition == number] == list(
            enumerate(values(5, "new"))
        )


def test_batches_tell_of_which_topic_they_are(live: Live) -> None:
    topic = live.topic()
    live.produce(topic, 0, values(2, "old"))
    with live.consumer(metadata_max_age_ms=200) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        old = consumer.poll_fetched(DEADLINE_S)
        with Admin({"bootstrap.servers": live.address}) as admin:
            assert old is not None
            assert old.topic_id == admin.cluster.topic(topic).topic_id != ZERO_UUID
            create_again(live, topic)
            live.produce(topic, 0, values(4, "new"))
            new = consumer.poll_fetched(DEADLINE_S)
            assert new is not None
            assert new.topic_id == admin.cluster.metadata([topic], refresh=True).topics[topic].topic_id != old.topic_id
            assert new.offset == 0


def test_without_a_reset_the_application_decides(live: Live) -> None:
    topic = live.topic()
    live.produce(topic, 0, values(2, "old"))
    with live.consumer(metadata_max_age_ms=200, auto_offset_reset="none") as consumer:
        tp = TopicPartition(topic, 0)
        consumer.assign([tp])
        consumer.seek(tp, 0)
        take(consumer, 2)
        create_again(live, topic)
        live.produce(topic, 0, values(4, "new"))

        def refused() -> bool:
            try:
                assert consumer.poll(0.2) == []
            except UnknownTopicOrPartitionError:
                return False
            except OffsetOutOfRangeError as error:
                return "deleted and created again" in str(error)
            return False

        wait_until(refused, "the position is refused")
        wait_until(refused, "it is refused as long as it stays")
        consumer.seek(tp, 1)
        assert [record.value for record in take(consumer, 3)] == values(4, "new")[1:]


def test_a_topic_is_fetched_by_its_id() -> None:
    topic = Topic()
    with reading(topic) as consumer:
        consumer.seek(TP, 2)
        assert offsets(consumer, 3) == [2, 3, 4]
    assert {asked[:2] for asked in topic.asked} == {("", OLD)}


@pytest.mark.parametrize("known", [OLD, ZERO_UUID])
def test_old_brokers_are_asked_by_name(known: UUID) -> None:
    """Brokers up to 3.0 do not know Fetch 13; those before 2.8, or with the older IBP, have no ids."""
    topic = Topic(newest_fetch=12 if known == OLD else 17)
    topic.known_id = known
    with reading(topic) as consumer:
        consumer.seek(TP, 2)
        found = consumer.poll_fetched(DEADLINE_S)
        assert found is not None
        assert (found.offset, found.next_offset, found.topic_id) == (2, 5, ZERO_UUID)
    assert {asked[:2] for asked in topic.asked} == {("t", ZERO_UUID)}


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID])
def test_a_refusal_alone_moves_no_position(code: ErrorCode) -> None:
    """A leader may learn of a topic's id later than others."""
    topic = Topic()
    topic.refusals, topic.refusal = 3, code
    with reading(topic) as consumer:
        consumer.seek(TP, 2)
        assert offsets(consumer, 3) == [2, 3, 4]


def test_metadata_alone_moves_no_position() -> None:
    """A broker that is behind may still tell of the old topic, or of a new one that the leader does not have."""
    topic = Topic()
    with reading(topic, metadata_max_age_ms=20) as consumer:
        consumer.seek(TP, 2)
        assert offsets(consumer, 3) == [2, 3, 4]
        topic.known_id = NEW
        told = topic.broker.seen[MetadataRequest]
        wait_until(lambda: topic.broker.seen[MetadataRequest] > told + 3, "the consumer has learnt of the other id")
        fetched = len(topic.asked)
        wait_until(lambda: len(topic.asked) > fetched + 3, "the leader is asked")
        assert consumer.poll(0.05) == []
        assert set(topic.asked[fetched:]) == {("", OLD, 5)}


def test_a_broker_that_is_asked_by_name_does_not_tell_of_which_topic_its_records_are() -> None:
    topic = Topic(newest_fetch=12)
    with reading(topic, metadata_max_age_ms=20) as consumer:
        consumer.seek(TP, 2)
        assert offsets(consumer, 3) == [2, 3, 4]
        topic.known_id = NEW
        assert offsets(consumer, 5) == [0, 1, 2, 3, 4]
