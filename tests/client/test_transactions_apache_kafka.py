"""Transactions against Apache Kafka: what its coordinator, its leaders and its consumers make of our producer."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.group_offsets import GroupOffsets
from kafkalog.client.offsets import list_offsets
from kafkalog.client.producer import Producer, TransactionAbortedError
from kafkalog.client.simple import SimpleConsumer
from kafkalog.client.transaction_errors import AbortableTransactionError, FatalTransactionError, FencedError
from kafkalog.client.transaction_requests import TransactionRequests, end_transaction
from kafkalog.client.types import LATEST, ConsumerGroupMetadata, TopicPartition
from tests.peers import kafka, require
from tests.peers.kafka import KAFKA_3, ApacheKafka
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

DEADLINE_S = 240.0


@pytest.fixture(scope="module")
def server() -> Iterator[ApacheKafka]:
    require(kafka.missing(KAFKA_3))
    with ApacheKafka(KAFKA_3, heap=("-Xmx512M",)) as running:
        yield running


class Site:
    """A topic of three partitions on a broker, and a transactional id of its own."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.topic = f"txn-{uuid.uuid4().hex[:12]}"
        self.id = f"id-{self.topic}"
        with Admin(self.config()) as admin:
            admin.create_topics([NewTopic(self.topic, 3, 1)])

    def config(self, **properties: Any) -> ClientConfig:
        return ClientConfig.from_dict({"bootstrap.servers": self.bootstrap, **named(properties)})

    def producer(self, **properties: Any) -> Producer:
        return Producer({"bootstrap.servers": self.bootstrap, "transactional.id": self.id, **named(properties)})

    def ends(self, isolation: str) -> dict[TopicPartition, int]:
        """Where consumers of this isolation have read everything."""
        config = self.config(isolation_level=isolation)
        tps = [TopicPartition(self.topic, number) for number in range(3)]
        with Cluster(config) as cluster:
            found = list_offsets(cluster, dict.fromkeys(tps, LATEST), isolation_level=config.isolation_level)
            return {tp: each.offset for tp, each in found.items()}

    def stable(self) -> bool:
        """Whether every transaction has ended: read_committed consumers see as far as others."""
        return self.ends("read_committed") == self.ends("read_uncommitted")

    def read(self, isolation: str = "read_committed") -> list[bytes | None]:
        """The values that a consumer sees once all transactions have ended."""
        wait_until(self.stable, "every transaction has ended", DEADLINE_S)
        ends = self.ends(isolation)
        found: list[bytes | None] = []
        with SimpleConsumer(self.config(isolation_level=isolation, auto_offset_reset="earliest")) as consumer:
            consumer.assign(ends)
            end = time.monotonic() + DEADLINE_S
            while any(consumer.position(tp) < ends[tp] for tp in ends):
                assert time.monotonic() < end
                found += [record.value for record in consumer.poll(0.5)]
        return found


def named(properties: dict[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "."): value for key, value in properties.items()}


@pytest.fixture
def site(server: ApacheKafka) -> Site:
    return Site(server.bootstrap)


def test_commit_and_abort(site: Site) -> None:
    with site.producer(linger_ms=5) as producer:
        producer.init_transactions()
        for number in range(10):
            producer.begin_transaction()
            futures = [producer.send(site.topic, b"%d-%d" % (number, n), partition=n % 3) for n in range(30)]
            if number % 3 == 2:
                producer.flush()
                late = producer.send(site.topic, b"late")
                producer.abort_transaction()
                assert isinstance(late.exception(), TransactionAbortedError | None)
            else:
                producer.commit_transaction()
            assert all(future.done() for future in futures)
    expected = {b"%d-%d" % (number, n) for number in range(10) if number % 3 != 2 for n in range(30)}
    found = site.read()
    assert len(found) == len(expected)
    assert set(found) == expected
    assert len(site.read("read_uncommitted")) >= 300


def test_offsets_count_with_the_transaction(site: Site) -> None:
    group = f"group-{site.topic}"
    tp = TopicPartition(site.topic, 0)
    with site.producer() as producer, Cluster(site.config()) as cluster:
        producer.init_transactions()
        offsets = GroupOffsets(cluster, group)
        producer.begin_transaction()
        producer.send_offsets_to_transaction({tp: 5}, group)
        producer.commit_transaction()
        wait_until(lambda: offsets.committed() == {tp: 5}, "the offset is committed", DEADLINE_S)
        with suppress(ZeroDivisionError), producer.transaction():
            producer.send_offsets_to_transaction({tp: 9 // 1}, group)
            producer.send_offsets_to_transaction({tp: 9 // 0}, group)
        producer.begin_transaction()
        with pytest.raises(AbortableTransactionError):
            producer.send_offsets_to_transaction({tp: 7}, ConsumerGroupMetadata(group, 3, "nobody"))
        with pytest.raises(AbortableTransactionError, match="cannot commit"):
            producer.commit_transaction()
        producer.abort_transaction()
        with producer.transaction():
            producer.send_offsets_to_transaction({tp: 6}, ConsumerGroupMetadata(group))
        wait_until(lambda: offsets.committed() == {tp: 6}, "the offset is committed", DEADLINE_S)


def test_a_newer_producer_fences(site: Site) -> None:
    old, new = site.producer(), site.producer()
    with old, new:
        old.init_transactions()
        old.begin_transaction()
        old.send(site.topic, b"old", partition=0).result(DEADLINE_S)
        new.init_transactions()
        old.send(site.topic, b"late", partition=0)
        with pytest.raises(AbortableTransactionError, match="INVALID_PRODUCER_EPOCH"):
            old.commit_transaction()
        with pytest.raises(FencedError):
            old.abort_transaction()
        with pytest.raises(FencedError):
            old.send(site.topic, b"later")
        with new.transaction():
            new.send(site.topic, b"new", partition=0)
    assert site.read() == [b"new"]


def test_fenced_before_anything_was_sent(site: Site) -> None:
    with site.producer() as old, site.producer() as new:
        old.init_transactions()
        old.begin_transaction()
        new.init_transactions()
        future = old.send(site.topic, b"old")
        with pytest.raises(FencedError):
            old.commit_transaction()
        assert isinstance(future.exception(), FencedError)


def test_a_lost_batch_aborts_and_raises_the_epoch(site: Site) -> None:
    with Admin(site.config()) as admin, site.producer() as producer:
        small = f"{site.topic}-small"
        admin.create_topics([NewTopic(small, 1, 1, {"max.message.bytes": "500"})])
        producer.init_transactions()
        with producer.transaction():
            producer.send(site.topic, b"first", partition=0)
        producer.begin_transaction()
        producer.send(site.topic, b"with a loss", partition=0)
        lost = producer.send(small, bytes(1000))
        with pytest.raises(AbortableTransactionError, match="MESSAGE_TOO_LARGE"):
            producer.commit_transaction()
        assert lost.exception() is not None
        with pytest.raises(AbortableTransactionError, match="cannot send"):
            producer.send(site.topic, b"no more")
        producer.abort_transaction()
        with producer.transaction():
            producer.send(site.topic, b"second", partition=0)
            producer.send(small, b"fits")
    assert site.read() == [b"first", b"second"]


def test_another_process_ends_it(site: Site) -> None:
    for commit in (True, False):
        with site.producer() as producer:
            producer.init_transactions()
            producer.begin_transaction()
            producer.send(site.topic, b"%r" % commit, partition=1)
            left = producer.detach()
            assert left.began
        end_transaction(site.config(), left.transactional_id, left.producer_id, left.producer_epoch, commit)
        # The driver may be unsure and do it again.
        end_transaction(site.config(), left.transactional_id, left.producer_id, left.producer_epoch, commit)
        with pytest.raises(FatalTransactionError, match="INVALID_TXN_STATE"):
            end_transaction(site.config(), left.transactional_id, left.producer_id, left.producer_epoch, not commit)
    assert site.read() == [b"True"]


def test_a_timeout_that_is_too_long(site: Site) -> None:
    with site.producer(transaction_timeout_ms=0x7FFFFFFF) as producer:
        with pytest.raises(FatalTransactionError, match="INVALID_TRANSACTION_TIMEOUT"):
            producer.init_transactions()
        with pytest.raises(FatalTransactionError, match="cannot begin transaction"):
            producer.begin_transaction()


def test_close_aborts(site: Site) -> None:
    with site.producer() as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(site.topic, b"open", partition=0).result(DEADLINE_S)
    assert site.read() == []
    with TransactionRequests(site.config(), site.id) as requests:
        assert requests.init().producer_epoch == 1, "the first was ended, not fenced"
