"""Test how far one record batch may expand, for each way to read its records."""

from __future__ import annotations

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import UnreadableBatchError
from kafkalog.client.consumer.fetcher.completed_fetch import CompletedFetch
from kafkalog.client.fetch.decode import decode_records
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.fetch.low_level_consumer import MessageSet
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.messages.fetch import PartitionData
from kafkalog.records.batch import Record, encode_batch
from kafkalog.records.compression import DEFAULT_MAX_SIZE, Codec
from kafkalog.records.errors import RecordTooLargeError
from kafkalog.records.legacy.message_set import encode_message_set

TP = TopicPartition("t", 0)
SIZE = 10_000
NAMED = r"expands to more than 4096 bytes; raise max\.batch\.bytes"


def config(**properties: int) -> ClientConfig:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientConfig.from_dict({"bootstrap.servers": "127.0.0.1:1", **given})


SMALL = config(max_batch_bytes=4096)


def batch(size: int) -> bytes:
    return bytes(encode_batch([Record(0, 0, None, bytes(size))], codec=Codec.ZSTD))


def wrapped(size: int) -> bytes:
    """A message of format v1 that has a message of zeros within."""
    return bytes(encode_message_set([Record(0, 0, None, bytes(size))], magic=1, codec=Codec.GZIP))


def fetched(data: bytes) -> FetchedRecords:
    return FetchedRecords(memoryview(data), 1, 1, 0, [])


def test_a_batch_may_expand_to_more_than_brokers_check() -> None:
    """Java's consumer reads a batch record by record, and has no bound."""
    size = DEFAULT_MAX_SIZE + 1
    ((records, after),) = decode_records(fetched(batch(size)), TP, 0, config())
    assert [len(each.value or b"") for each in records] == [size]
    assert after == 1


@pytest.mark.parametrize("data", [batch(SIZE), wrapped(SIZE)], ids=["v2", "v1"])
def test_a_larger_batch_is_refused_and_the_error_names_the_property(data: bytes) -> None:
    with pytest.raises(RecordTooLargeError, match=NAMED):
        list(decode_records(fetched(data), TP, 0, SMALL))
    with pytest.raises(RecordTooLargeError, match=NAMED):
        CompletedFetch(TP, 0, fetched(data), 0).take(1, SMALL)
    to_arrow = CompletedFetch(TP, 0, fetched(data), 0)
    to_arrow.decode_arrow(("value",), SMALL)
    with pytest.raises(RecordTooLargeError, match=NAMED):
        to_arrow.take_arrow()
    with pytest.raises(RecordTooLargeError, match=NAMED):
        list(MessageSet(TP, 0, memoryview(data), PartitionData(), len(data), SMALL.max_batch_bytes))


@pytest.mark.parametrize("data", [batch(SIZE), wrapped(SIZE)], ids=["v2", "v1"])
def test_a_batch_within_the_bound_is_read_to_arrow(data: bytes) -> None:
    completed = CompletedFetch(TP, 0, fetched(data), 0)
    completed.decode_arrow(("value",), config(max_batch_bytes=SIZE + 100))
    found, _ = completed.take_arrow()
    assert found is not None
    assert [len(each) for each in found["value"].to_pylist()] == [SIZE]


def test_a_consumer_tells_of_the_property_and_of_the_way_past_the_batch() -> None:
    with pytest.raises(RecordTooLargeError) as refused:
        list(decode_records(fetched(batch(SIZE)), TP, 0, SMALL))
    told = str(UnreadableBatchError(TP, 0, refused.value))
    assert "partition t-0 at offset 0" in told
    assert "raise max.batch.bytes" in told
    assert "seek past it" in told
