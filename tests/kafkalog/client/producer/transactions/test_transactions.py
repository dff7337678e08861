"""Tests of our producer's transactions with the coordinator, the leaders and the consumers of a broker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.admin.groups.offsets import GroupOffsets
from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.producer import TransactionAbortedError, TransactionStateError
from kafkalog.client.transactions.errors import AbortableTransactionError, FatalTransactionError, FencedError
from kafkalog.client.transactions.requests import ProducerIdentity, TransactionRequests, end_transaction
from kafkalog.client.types import ConsumerGroupMetadata, TopicPartition
from kafkalog.records.batch import Record, encode_batch
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka import KAFKA_3, ApacheKafka
from tests.kafkalog.client.producer.transactions.site import DEADLINE_S, Site
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module", params=["kafkalog", pytest.param("apache", marks=pytest.mark.peer)])
def bootstrap(processes: None, request: pytest.FixtureRequest) -> Iterator[str]:
    """host:port of a broker: ours, then Apache Kafka."""
    if request.param == "kafkalog":
        yield request.getfixturevalue("broker_address")
        return
    require(kafka.missing(KAFKA_3))
    with ApacheKafka(KAFKA_3, heap=("-Xmx512M",)) as running:
        yield running.bootstrap


@pytest.fixture
def site(bootstrap: str) -> Site:
    return Site(bootstrap)


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


def test_an_abort_whose_new_epoch_comes_late_may_be_called_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with Admin(site.config()) as admin, site.producer() as producer:
        small = f"{site.topic}-small"
        admin.create_topics([NewTopic(small, 1, 1, {"max.message.bytes": "500"})])
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(site.topic, b"with a loss", partition=0)
        lost = producer.send(small, bytes(1000))
        producer.flush()
        assert lost.exception() is not None
        present = TransactionRequests.raise_epoch

        def answer_is_lost(
            self: TransactionRequests, *, ended: bool, deadline: float | None = None
        ) -> ProducerIdentity:
            identity = self.identity
            present(self, ended=ended, deadline=deadline)
            self.identity = identity
            raise ClientTimeoutError("the answer did not come in time")

        monkeypatch.setattr(TransactionRequests, "raise_epoch", answer_is_lost)
        with pytest.raises(ClientTimeoutError):
            producer.abort_transaction()
        monkeypatch.undo()
        producer.abort_transaction()
        with producer.transaction():
            producer.send(site.topic, b"second", partition=0)
    assert site.read() == [b"second"]


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


PRODUCER = """
import sys, time
from kafkalog.client.producer import Producer
bootstrap, transactional_id, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id})
producer.init_transactions()
producer.begin_transaction()
for number in range(300):
    producer.send(topic, b"lost-%d" % number, partition=number % 3)
producer.flush()
print("delivered", flush=True)
while True:
    producer.send(topic, b"lost", partition=0)
    time.sleep(0.001)
"""


def test_a_killed_producer_leaves_nothing(site: Site) -> None:
    """kill -9 in a transaction: the next producer with the id fences it, and read_committed sees nothing of it."""
    command = [sys.executable, "-c", PRODUCER, site.bootstrap, site.id, site.topic]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as out:
        assert out.readline() == b"delivered\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert site.ends("read_uncommitted") != site.ends("read_committed"), "what it wrote is there, and open"
    with site.producer() as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(site.topic, b"kept", partition=0)
    assert site.read() == [b"kept"]


def test_wrong_calls(site: Site) -> None:
    with site.producer() as producer:
        with pytest.raises(TransactionStateError, match="call init_transactions first"):
            producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="call init_transactions first"):
            producer.send(site.topic, b"x")
        producer.init_transactions()
        with pytest.raises(TransactionStateError, match="init_transactions in state READY"):
            producer.init_transactions()
        with pytest.raises(TransactionStateError, match="call begin_transaction first"):
            producer.send_values(site.topic, [b"x"])
        with pytest.raises(TransactionStateError, match="call begin_transaction first"):
            producer.send_batch(site.topic, 0, encode_batch([Record(0, 0, b"k", b"v")]))
        with pytest.raises(TransactionStateError, match="commit_transaction in state READY"):
            producer.commit_transaction()
        with pytest.raises(TransactionStateError, match="without a transaction in progress"):
            producer.send_offsets_to_transaction({TopicPartition(site.topic, 0): 1}, "g")
        producer.begin_transaction()
        with pytest.raises(TransactionStateError, match="commit or abort the transaction first"):
            producer.begin_transaction()
        with pytest.raises(ValueError, match="generation 3"):
            producer.send_offsets_to_transaction({}, ConsumerGroupMetadata("g", 3))
        producer.commit_transaction()
    assert site.read("read_uncommitted") == []


def test_encoded_batches(site: Site) -> None:
    """Batches that a caller encoded take part, and leaders see them as the transaction's."""
    with site.producer() as producer:
        producer.init_transactions()
        for commit in (False, True):
            producer.begin_transaction()
            for partition in range(3):
                producer.send_batch(
                    site.topic,
                    partition,
                    encode_batch([Record(0, 0, value=b"%r-%d" % (commit, partition))]),
                )
            producer.send(site.topic, b"%r-plain" % commit, partition=1)
            producer.commit_transaction() if commit else producer.abort_transaction()
    assert sorted(filter(None, site.read())) == [b"True-0", b"True-1", b"True-2", b"True-plain"]


def test_a_broker_killed_within_commits(start_broker: Callable[..., KafkalogBroker]) -> None:
    """Every transaction is there as a whole or not at all, those that were committed are, and order is kept."""
    broker = start_broker()
    site = Site(broker.bootstrap)
    committed: list[int] = []
    stop = threading.Event()
    failures: list[Exception] = []
    quick = {"retry_backoff_ms": 20, "reconnect_backoff_max_ms": 100, "max_block_ms": 240_000}

    def write() -> None:
        try:
            with site.producer(**quick) as producer:
                producer.init_transactions()
                number = 0
                while not stop.is_set():
                    producer.begin_transaction()
                    for n in range(9):
                        producer.send(site.topic, b"%d-%d" % (number, n), partition=n % 3)
                    if number % 4 == 3:
                        producer.abort_transaction()
                    else:
                        producer.commit_transaction()
                        committed.append(number)
                    number += 1
        except Exception as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(2):
            goal = len(committed) + 5
            wait_until(lambda goal=goal: len(committed) > goal or bool(failures), "commits", DEADLINE_S)  # type: ignore[misc]
            broker.kill()
            broker.start()
        goal = len(committed) + 5
        wait_until(lambda: len(committed) > goal or bool(failures), "commits", DEADLINE_S)
    finally:
        stop.set()
        writer.join()
    assert not failures, failures
    expected = [b"%d-%d" % (number, n) for number in committed for n in range(9)]
    found = [value or b"" for value in site.read()]
    assert sorted(found) == sorted(expected)
    for partition in range(3):
        mine = [value for value in found if int(value.split(b"-")[1]) % 3 == partition]
        assert mine == [value for value in expected if int(value.split(b"-")[1]) % 3 == partition]


def test_close_keeps_its_time_beside_a_call_of_another_thread(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says nothing of a transaction that was committed meanwhile."""
    began, go_on = threading.Event(), threading.Event()
    with site.producer() as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send(site.topic, b"x", partition=0)
        calls = producer._calls
        end = calls._requests.end

        def late(committed: bool, *, deadline: float) -> None:
            began.set()
            assert go_on.wait(DEADLINE_S)
            end(committed, deadline=deadline)

        monkeypatch.setattr(calls._requests, "end", late)
        committing = threading.Thread(target=producer.commit_transaction)
        committing.start()
        try:
            assert began.wait(DEADLINE_S)
            calls.close(0.01)
            assert calls.transactions.open, "it is left to the other thread"
            closing = threading.Thread(target=calls.close, args=(None,))
            closing.start()
        finally:
            go_on.set()
        committing.join(DEADLINE_S)
        closing.join(DEADLINE_S)
        assert not calls.transactions.open
    assert site.read() == [b"x"]
