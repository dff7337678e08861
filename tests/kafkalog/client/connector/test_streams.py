"""Streams: what the application gets, what counts as consumed, and what is dropped."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable

import pytest

from kafkalog.client.connector.lease import Lease
from kafkalog.client.connector.streams import Chunk, ConsumerTimeoutError, MessageStream, PartitionState
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.records.errors import RecordsError
from tests.support.waiting import wait_until

TP = TopicPartition("words", 0)


def make(timeout: float | None = 0.0, capacity: int = 2) -> tuple[MessageStream, Lease]:
    lease = Lease(1000.0)
    lease.renew(time.monotonic())
    return MessageStream(capacity, timeout, lease), lease


def records(offsets: Iterable[int]) -> list[ConsumerRecord]:
    return [ConsumerRecord(*TP, offset, 0, 0, None, b"%d" % offset) for offset in offsets]


def test_records_count_as_consumed_when_they_are_returned() -> None:
    stream, _ = make()
    partition = PartitionState(TP, 0)
    stream.put(Chunk(partition, records([0, 1, 5])))
    assert next(stream).offset == 0
    assert partition.consumed == 1
    assert [next(stream).offset, next(stream).offset] == [1, 5]
    assert partition.consumed == 6


def test_polled_records_count_as_consumed_when_that_is_said() -> None:
    stream, _ = make()
    partition = PartitionState(TP, 0)
    stream.put(Chunk(partition, records(range(5))))
    assert len(stream.poll(0.0, 3)) == 3
    assert partition.consumed == 0
    stream.consumed()
    assert partition.consumed == 3


def test_what_was_consumed_before_is_left_out() -> None:
    stream, _ = make()
    stream.put(Chunk(PartitionState(TP, 3), records(range(3))))
    stream.put(Chunk(PartitionState(TP, 3), records(range(6))))
    assert [each.offset for each in stream.poll(0.0, 10)] == [3, 4, 5]


def test_a_partition_that_was_reset_goes_on_at_a_smaller_offset() -> None:
    stream, _ = make()
    partition = PartitionState(TP, 1000)
    stream.put(Chunk(partition, records(range(2)), is_reset=True))
    assert next(stream).offset == 0
    assert partition.consumed == 1


def test_a_timeout_leaves_the_stream_usable() -> None:
    stream, _ = make(0.0)
    with pytest.raises(ConsumerTimeoutError):
        next(stream)
    stream.put(Chunk(PartitionState(TP, 0), records([0])))
    assert next(stream).offset == 0


def test_revoked_partitions_return_nothing_and_count_until_they_are_settled() -> None:
    stream, _ = make(capacity=3)
    partition, settled = PartitionState(TP, 0), PartitionState(TopicPartition("words", 1), 0)
    for each in (partition, settled, partition):
        stream.put(Chunk(each, records([0])))
    assert [len(stream.poll(0.0, 10)) for _ in range(2)] == [1, 1]
    stream.revoke([partition, settled])
    stream.settle([settled])
    stream.consumed()
    assert (partition.consumed, settled.consumed) == (1, 0)
    assert stream.poll(0.0, 10) == []
    assert not stream.put(Chunk(partition, records([6])))


def test_nothing_is_returned_without_a_lease() -> None:
    stream, lease = make()
    stream.put(Chunk(PartitionState(TP, 0), records([0])))
    lease.end()
    lease.renew(time.monotonic())
    assert stream.poll(0.0, 1) == []
    lease.begin()
    assert stream.poll(0.0, 1) == []
    lease.renew(time.monotonic())
    assert len(stream.poll(0.0, 1)) == 1


def test_a_full_queue_holds_its_fetcher_up() -> None:
    stream, _ = make(capacity=1)
    partition = PartitionState(TP, 0)
    stream.put(Chunk(partition, records([0])))
    fetcher = threading.Thread(target=lambda: stream.put(Chunk(partition, records([1]))))
    fetcher.start()
    assert next(stream).offset == 0
    fetcher.join(60)
    assert next(stream).offset == 1


def test_a_fetcher_that_waits_ends_when_the_partition_is_revoked() -> None:
    stream, _ = make(capacity=1)
    partition = PartitionState(TP, 0)
    stream.put(Chunk(partition, records([0])))
    outcomes: list[bool] = []
    fetcher = threading.Thread(target=lambda: outcomes.append(stream.put(Chunk(partition, records([1])))))
    fetcher.start()
    stream.revoke([partition])
    fetcher.join(60)
    assert outcomes == [False]


def test_an_error_comes_after_the_records_before_it() -> None:
    stream, _ = make()
    partition = PartitionState(TP, 0)
    stream.put(Chunk(partition, records([0])))
    stream.fail(partition, RecordsError("damaged"))
    assert next(stream).offset == 0
    with pytest.raises(RecordsError, match="damaged"):
        next(stream)
    stream.revoke([partition])
    assert stream.poll(0.0, 1) == []


def test_an_error_ends_with_its_own_cause_only() -> None:
    stream, _ = make()
    first, second = PartitionState(TP, 0), PartitionState(TopicPartition("words", 1), 0)
    stream.fail(first, RecordsError("damaged"))
    stream.fail(second, RecordsError("also damaged"))
    stream.recovered(first)
    with pytest.raises(RecordsError, match="also"):
        next(stream)
    stream.recovered(second)
    with pytest.raises(ConsumerTimeoutError):
        next(stream)


def test_a_closed_stream_ends_the_loop_of_its_reader() -> None:
    stream, _ = make(None)
    found: list[ConsumerRecord] = []
    reader = threading.Thread(target=lambda: found.extend(stream))
    reader.start()
    stream.put(Chunk(PartitionState(TP, 0), records([0])))
    wait_until(lambda: bool(found) or not stream._chunks, "the record is read")
    stream.close()
    reader.join(60)
    assert not reader.is_alive()
    assert [each.offset for each in found] == [0]


def test_decoders_make_values_but_not_of_null() -> None:
    lease = Lease(1000.0)
    lease.renew(time.monotonic())
    stream = MessageStream(2, 0.0, lease, lambda data: data.decode(), int)
    stream.put(Chunk(PartitionState(TP, 0), [ConsumerRecord(*TP, 0, 0, 0, None, b"12")]))
    record = next(stream)
    assert record.key is None
    assert str(record.value) == "12"
