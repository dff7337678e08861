"""Test that clients above their quotas wait, then get their responses, and take no broker for dead."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.admin.quotas import QuotaAdmin
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import Consumer
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.fetch.low_level_consumer import LowLevelConsumer
from kafkalog.client.fetch.partition_fetcher import PartitionFetcher
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.records.batch import iter_headers
from tests.support.kafkalog_broker import KafkalogBroker

TP = TopicPartition("t", 0)
COUNT, SIZE = 40, 1000
IMPATIENT = {"request.timeout.ms": "3000", "default.api.timeout.ms": "3500", "fetch.wait.max.ms": "100"}
"""Shorter than a client is held back, which is for four seconds."""


@pytest.fixture
def bootstrap(start_broker: Callable[..., KafkalogBroker]) -> str:
    """A broker with 40,000 bytes: 20,000 at once for a consumer, which then waits for up to four seconds."""
    broker = start_broker({"quota.window.num": "5"})
    with Admin(ClientConfig.from_dict({"bootstrap.servers": broker.bootstrap})) as admin:
        admin.create_topics([NewTopic("t", 1)])
    with Producer({"bootstrap.servers": broker.bootstrap, "batch.size": "1000"}) as producer:
        for number in range(COUNT):
            producer.send("t", value(number), partition=0).result(60)
    with QuotaAdmin(ClientConfig.from_dict({"bootstrap.servers": broker.bootstrap})) as admin:
        admin.alter({"client-id": "limited"}, {"consumer_byte_rate": 5000, "producer_byte_rate": 5000})
    return broker.bootstrap


@pytest.fixture(autouse=True)
def no_timeouts(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.INFO, "kafkalog"):
        yield
    assert not [record.getMessage() for record in caplog.records if "in time" in record.getMessage()]


def value(number: int) -> bytes:
    return b"%d" % number + b"x" * SIZE


def properties(bootstrap: str) -> dict[str, str]:
    return {"bootstrap.servers": bootstrap, "client.id": "limited", "auto.offset.reset": "earliest", **IMPATIENT}


def test_a_fetcher(bootstrap: str) -> None:
    with Cluster(ClientConfig.from_dict(properties(bootstrap))) as cluster, PartitionFetcher(cluster, TP) as fetcher:
        offset = 0
        while offset < COUNT:
            chunk = fetcher.fetch(offset)
            if len(chunk.records):
                fetcher.prefetch(offset)
            for _, header in iter_headers(chunk.records):
                assert header.base_offset == offset
                offset = header.last_offset + 1


def test_a_simple_consumer(bootstrap: str) -> None:
    with SimpleConsumer(ClientConfig.from_dict(properties(bootstrap))) as consumer:
        consumer.assign([TP])
        found: list[bytes | None] = []
        while len(found) < COUNT:
            found += [record.value for record in consumer.poll(0.5)]
    assert found == list(map(value, range(COUNT)))


def test_a_consumer(bootstrap: str) -> None:
    with Consumer(properties(bootstrap)) as consumer:
        consumer.assign([TP])
        found: list[bytes | None] = []
        while len(found) < COUNT:
            found += [record.value for record in consumer.poll(0.5)]
    assert found == list(map(value, range(COUNT)))


def test_a_producer(bootstrap: str) -> None:
    with Producer({**properties(bootstrap), "batch.size": "1000", "delivery.timeout.ms": "120000"}) as producer:
        futures = [producer.send("t", value(number), partition=0) for number in range(COUNT)]
        assert [future.result(120).offset for future in futures] == list(range(COUNT, 2 * COUNT))


def test_a_connection_waits_as_long_as_it_is_told(bootstrap: str) -> None:
    # One batch has all records, however slowly they are sent one after another.
    lingering = {"batch.size": "100000", "linger.ms": "60000"}
    before = time.monotonic()
    with Producer({**properties(bootstrap), **lingering}) as producer:
        for number in range(COUNT):
            producer.send("t", value(number), partition=0)
        producer.flush()
        (link,) = producer._sender._channels.values()
        assert link._connection is not None
        assert link._connection.serves_at > before + 2
        after = producer.send("t", b"after", partition=0)
        producer.flush()
        assert after.result(60).offset == 2 * COUNT


@pytest.mark.parametrize("version", [0, 12])
def test_a_consumer_of_offsets_and_sizes(bootstrap: str, version: int) -> None:
    patient = {**properties(bootstrap), "request.timeout.ms": "30000"}
    with LowLevelConsumer(ClientConfig.from_dict(patient), max_version=version) as consumer:
        assert [record.value for record in consumer.messages("t", 0, 0)] == list(map(value, range(COUNT)))


def test_an_administrator_waits_and_makes_no_new_connection(bootstrap: str, caplog: pytest.LogCaptureFixture) -> None:
    with QuotaAdmin(ClientConfig.from_dict({"bootstrap.servers": bootstrap})) as quotas:
        quotas.alter({"client-id": "maker"}, {"controller_mutation_rate": 2})
    settings = {"bootstrap.servers": bootstrap, "client.id": "maker", "request.timeout.ms": "3000"}
    with Admin(ClientConfig.from_dict(settings)) as admin:
        admin.create_topics([NewTopic("made", 30)])
        (slot,) = [slot for slot in admin.cluster._slots.values() if slot.connection is not None]
        connection = slot.connection
        # Refused as long as partitions are owed: it tries again by itself.
        admin.create_topics([NewTopic("more", 1)])
        assert slot.connection is connection
        assert {"made", "more"} <= set(admin.list_topics())
    assert any("above a quota" in record.getMessage() for record in caplog.records)


def test_a_fetch_with_a_deadline_keeps_to_it(bootstrap: str) -> None:
    """A batch that is larger than the windows never fits, at any broker."""
    with QuotaAdmin(ClientConfig.from_dict({"bootstrap.servers": bootstrap})) as quotas:
        quotas.alter({"client-id": "starving"}, {"consumer_byte_rate": 10})
    settings = {"bootstrap.servers": bootstrap, "client.id": "starving"}
    with (
        Cluster(ClientConfig.from_dict(settings)) as cluster,
        PartitionFetcher(cluster, TP) as fetcher,
        pytest.raises(ClientTimeoutError),
    ):
        fetcher.fetch(0, deadline=time.monotonic() + 2)
