"""Test that a loop over a consumer that ends early gets the rest of its records the next time."""

from __future__ import annotations

import pytest

from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.kafkalog.client.consumer.support import DEADLINE_S
from tests.kafkalog.client.consumer.test_created_again import NEW, TP, Topic, offsets, reading
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


def test_records_before_one_that_cannot_be_deserialized_come_again() -> None:
    """The records before it, of the same poll, are those that the loop gets."""
    refused = {b"v3"}

    def deserialized(value: bytes) -> bytes:
        if value in refused:
            raise ValueError("not that one")
        return value

    with reading(Topic(), value_deserializer=deserialized) as consumer:
        consumer.seek(TP, 0)
        for record in consumer:
            assert (record.offset, consumer.position(TP)) == (0, 3)
            break
        assert consumer.position(TP) == 1
        refused.clear()
        assert offsets(consumer, 4) == [1, 2, 3, 4]


def test_the_rest_is_not_taken_from_another_topic_of_the_same_name() -> None:
    topic = Topic()
    with reading(topic, metadata_max_age_ms=20) as consumer:
        consumer.seek(TP, 0)
        for record in consumer:
            if record.offset == 1:
                # So that nothing is fetched before the topic is another one.
                consumer.pause(TP)
                break
        assert consumer.position(TP) == 2
        topic.topic_id = topic.known_id = NEW
        told = topic.broker.seen[MetadataRequest]
        wait_until(lambda: topic.broker.seen[MetadataRequest] > told + 1, "the consumer has learnt of the other id")
        consumer.resume(TP)
        assert [record.offset for record in consumer.poll(DEADLINE_S)] == [0, 1, 2, 3, 4]


def test_records_come_again_if_a_signal_ends_the_wait_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """They were taken, but not returned."""

    def interrupted() -> bool:
        raise KeyboardInterrupt

    with reading(Topic()) as consumer:
        consumer.seek(TP, 0)
        with monkeypatch.context() as patched:
            patched.setattr(consumer._loop, "_interrupted", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.consume(100, timeout=DEADLINE_S)
        assert consumer.position(TP) == 0
        assert offsets(consumer, 5) == [0, 1, 2, 3, 4]


def test_records_come_again_if_a_signal_ends_their_deserialization() -> None:
    signals = [KeyboardInterrupt()]

    def deserialized(value: bytes) -> bytes:
        if value == b"v3" and signals:
            raise signals.pop()
        return value

    with reading(Topic(), value_deserializer=deserialized) as consumer:
        consumer.seek(TP, 0)
        with pytest.raises(KeyboardInterrupt):
            offsets(consumer, 5)
        assert consumer.position(TP) == 0
        assert offsets(consumer, 5) == [0, 1, 2, 3, 4]
