"""Test record batches as fetches return them."""

from __future__ import annotations

import uuid

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.consumer import Consumer
from kafkalog.client.consumer.fetcher.fetch_collector import FetchedBatches
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.records.batch import decode_batch, iter_headers
from kafkalog.records.compression import Codec

COUNT = 20


@pytest.fixture
def topic(broker_address: str) -> str:
    """Make a topic with batches of one record each."""
    name = f"fetched-{uuid.uuid4().hex[:8]}"
    with Admin({"bootstrap.servers": broker_address}) as admin:
        admin.create_topics([NewTopic(name, 1, 1)])
    with Producer({"bootstrap.servers": broker_address, "compression.type": "gzip"}) as producer:
        for number in range(COUNT):
            producer.send(name, b"v%d" % number).result()
    return name


def consumer_of(address: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": address, "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, 0)])
    return consumer


def values(found: FetchedBatches) -> list[bytes | None]:
    records = found.fetched.records
    return [record.value for pos, _ in iter_headers(records) for record in decode_batch(records, pos)[1]]


def test_batches_come_as_the_log_has_them(broker_address: str, topic: str) -> None:
    with consumer_of(broker_address, topic) as consumer:
        found = consumer.poll_fetched(30.0)
        assert found is not None
        assert (found.partition, found.offset, found.next_offset) == (TopicPartition(topic, 0), 0, COUNT)
        assert values(found) == [b"v%d" % number for number in range(COUNT)]
        assert {header.codec for _, header in iter_headers(found.fetched.records)} == {Codec.GZIP}
        assert found.fetched.high_watermark == COUNT
        assert consumer.position(TopicPartition(topic, 0)) == COUNT
        assert consumer.poll_fetched() is None


def test_it_goes_on_where_poll_has_stopped(broker_address: str, topic: str) -> None:
    with consumer_of(broker_address, topic) as consumer:
        assert len(consumer.poll(30.0, 3)) == 3
        found = consumer.poll_fetched(30.0)
        assert found is not None
        assert (found.offset, found.next_offset) == (3, COUNT)
        consumer.seek(TopicPartition(topic, 0), 5)
        assert [record.offset for record in consumer.poll(30.0)] == list(range(5, COUNT))
