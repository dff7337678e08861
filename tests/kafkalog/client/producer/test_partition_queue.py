"""Tests of the sender's queues without a broker: which batches it takes, when, and the order of results."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.metadata import PartitionMetadata, TopicMetadata
from kafkalog.client.producer.accumulator import Accumulator
from kafkalog.client.producer.batches.batch import ProducerBatch
from kafkalog.client.producer.batches.encoded_batch import EncodedBatch
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.partition_queue import PartitionQueue
from kafkalog.client.producer.sender.sender import Sender
from kafkalog.client.producer.sender.sequences import MAX_EPOCH
from kafkalog.client.producer.sender.topic_metadata import Topics, TopicState
from kafkalog.client.producer.transactions.transaction_manager import State
from kafkalog.client.transactions.errors import AbortableTransactionError
from kafkalog.client.transactions.requests import ProducerIdentity
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import MessageTooLargeError
from kafkalog.records.batch import Record, encode_batch


def settings(**properties: Any) -> ProducerConfig:
    more = {key.replace("_", "."): value for key, value in properties.items()}
    given = {"bootstrap.servers": "localhost:1", **more}
    return ProducerConfig.from_dict(given)


def queue_of(accumulator: Accumulator, batches: int) -> PartitionQueue:
    """A partition with a leader and so many batches."""
    queue = PartitionQueue("t", 0)
    queue.leader = 1
    for number in range(batches):
        accumulator.put(queue, encode_batch([Record(0, 0, value=b"%d" % number)]))
    return queue


def take(accumulator: Accumulator, config: ProducerConfig) -> list[ProducerBatch]:
    """Return the batches that are sent now, if nodes take any number of requests."""
    return accumulator.take(time.monotonic(), config.idempotence, True, lambda node: 0.0).requests.get(1, [])


@pytest.mark.parametrize("open_one", [False, True], ids=["full batches", "an open one"])
def test_a_sequence_begins_with_one_batch(open_one: bool) -> None:
    """A broker without the producer's state takes any number: a second batch could overtake a first that is refused."""
    config = settings()
    accumulator = Accumulator(config, lambda: None)
    queue = queue_of(accumulator, 1 if open_one else 3)
    if open_one:
        accumulator.append(queue, b"x", 0, None, (), 100)
    [first] = take(accumulator, config)
    first.identify(7, 0, 0)
    queue.producer_id, queue.producer_epoch = 7, 0
    assert take(accumulator, config) == []
    queue.acknowledge(first)
    [second] = take(accumulator, config)
    assert (second.serial, queue.in_flight) == (2, [first, second])


def test_what_is_acknowledged_of_an_older_sequence_says_nothing_of_the_new() -> None:
    config = settings()
    accumulator = Accumulator(config, lambda: None)
    queue = queue_of(accumulator, 3)
    [first] = take(accumulator, config)
    first.identify(7, 0, 0)
    queue.producer_id, queue.producer_epoch = 7, 1
    queue.begin_sequence()
    queue.acknowledge(first)
    assert take(accumulator, config) == []


def test_without_idempotence_nothing_waits() -> None:
    config = settings(enable_idempotence="false")
    accumulator = Accumulator(config, lambda: None)
    queue = queue_of(accumulator, 3)
    assert [take(accumulator, config)[0].serial for _ in range(3)] == [1, 2, 3]
    assert len(queue.in_flight) == 3


@pytest.fixture
def sender() -> Iterator[Sender]:
    """Of a producer in a transaction; its thread does not run."""
    config = settings(transactional_id="x")
    with Cluster(config.client) as cluster:
        sender = Sender(config, cluster)
        transactions = sender.accumulator.transactions
        assert transactions is not None
        transactions.begin_init()
        transactions.initialized(ProducerIdentity(7, 0))
        transactions.begin()
        sender.accumulator.admit()
        transactions.added([TopicPartition("t", 0)])
        yield sender


def test_only_a_transaction_that_is_aborted_withdraws(sender: Sender) -> None:
    """Batches of the next transaction are not those of the one before."""
    accumulator = sender.accumulator
    assert accumulator.transactions is not None
    queue = queue_of(accumulator, 2)
    assert accumulator.withdraw() == []
    [sent] = take(accumulator, settings())
    sent.identify(7, 0, 0)
    accumulator.requeue(queue, [sent])
    queue.in_flight.clear()
    accumulator.transactions.begin_abort()
    assert [batch.serial for batch in accumulator.withdraw()] == [2]
    assert list(queue.ready) == [sent]
    accumulator.transactions.ended()
    accumulator.transactions.begin()
    accumulator.admit()
    accumulator.put(queue, encode_batch([Record(0, 0, value=b"next")]))
    assert accumulator.withdraw() == []


def test_a_transaction_is_broken_before_its_last_batch_is_gone(sender: Sender, monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that finds nothing left to deliver must already see that something was not delivered."""
    accumulator = sender.accumulator
    transactions = accumulator.transactions
    assert transactions is not None
    queue_of(accumulator, 1)
    [batch] = take(accumulator, settings())
    states = []
    release = accumulator.release

    def watch(batches: list[ProducerBatch]) -> None:
        states.append(transactions.state)
        release(batches)

    monkeypatch.setattr(accumulator, "release", watch)
    sender._finish([batch], MessageTooLargeError("t-0"))
    assert states == [State.ABORTABLE_ERROR]
    with pytest.raises(AbortableTransactionError, match="MESSAGE_TOO_LARGE"):
        transactions.check_commit()


def test_flush_waits_for_who_is_being_told() -> None:
    """The memory of a batch is given back before its futures are done."""
    config = settings()
    accumulator = Accumulator(config, lambda: None)
    queue_of(accumulator, 1)
    [batch] = take(accumulator, config)
    accumulator.release([batch])
    assert not accumulator.incomplete
    with pytest.raises(ClientTimeoutError):
        accumulator.flush(0)
    flushing = threading.Thread(target=accumulator.flush, args=(60,))
    flushing.start()
    batch.complete(0, -1, None)
    # Its future is done, but the callbacks may be under way.
    with pytest.raises(ClientTimeoutError, match="callbacks"):
        accumulator.flush(0)
    accumulator.end_release()
    flushing.join(60)
    assert not flushing.is_alive()


def test_what_was_not_told_is_failed_with_the_rest() -> None:
    config = settings()
    accumulator = Accumulator(config, lambda: None)
    queue_of(accumulator, 2)
    [batch] = take(accumulator, config)
    accumulator.release([batch])
    assert [each.serial for each in accumulator.drain()] == [2, 1]


def test_a_topic_created_again_begins_anew() -> None:
    """Its logs know nothing of the producer: they take any sequence number for its first."""
    config = settings()
    accumulator = Accumulator(config, lambda: None)
    ids = [UUID(int=1), UUID(int=1), UUID(int=2)]
    begun = []
    with Cluster(config.client) as cluster:
        topics = Topics(config, cluster, accumulator)
        state = topics.states["t"] = TopicState("t", 1)
        for topic_id, count in zip(ids, (3, 2, 2), strict=True):
            partitions = {n: PartitionMetadata(n, 1, 0, (1,), (1,), ()) for n in range(count)}
            topics._update(state, TopicMetadata("t", topic_id, False, partitions, 0))
            queues = [*state.queues, *state.gone.values()]
            begun.append([queue.begun for queue in queues])
            for queue in queues:
                queue.begun = True
    assert begun == [[False] * 3, [True] * 3, [False] * 3]


def test_an_id_whose_last_epoch_is_taken_is_good_for_what_goes_out_with_it() -> None:
    config = settings()
    with Cluster(config.client) as cluster:
        sender = Sender(config, cluster)
        sequences = sender.sequences
        sequences.producer_id, sequences.producer_epoch = 9, 0
        state = sender.topics.states["t"] = TopicState("t", 1)
        state.queues = [PartitionQueue("t", 0), PartitionQueue("t", 1)]
        for queue in state.queues:
            queue.leader = 1
            sender.accumulator.put(queue, encode_batch([Record(0, 0, value=b"x")]))
        old = state.queues[0]
        old.producer_id, old.producer_epoch, old.reset = 9, MAX_EPOCH - 1, True
        batches = take(sender.accumulator, config)
        for batch in batches:
            sequences.number(sender.topics.queue(batch.topic, batch.partition), batch)
        assert not sequences.identified
    assert [(each.producer_id, each.producer_epoch, each.base_sequence) for each in batches] == [
        (9, MAX_EPOCH, 0),
        (9, 0, 0),
    ]


@pytest.mark.parametrize("encoded", [False, True])
def test_headers_count_where_a_batch_is_split(encoded: bool) -> None:
    headers = (("h", b"x" * 1000),)
    if encoded:
        record = Record(0, 0, value=b"v", headers=headers)
        batch: ProducerBatch = EncodedBatch("t", 0, 1, encode_batch([record, record._replace(offset=1)]))
    else:
        batch = ProducerBatch("t", 0, 1)
        for _ in range(2):
            batch.append_keyed(b"v", 0, None, headers)
        batch.size = 2 * 1040
    parts = batch.split(1, batch.size // 2)
    assert [part.count for part in parts] == [1, 1]
    assert all(1001 < part.size < 1100 for part in parts)
