"""Test that the rows of tables are in the log, in the partitions that `send` would choose."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.producer import Producer
from kafkalog.client.producer.arrow.partition_rows import RowError
from kafkalog.client.producer.partitioner import partition_for_key
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.protocol.errors import MessageTooLargeError, UnknownTopicOrPartitionError
from tests.kafkalog.client.producer.transactions.site import DEADLINE_S, Site

PARTITIONS = 3
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic(PARTITIONS)


def read(broker_address: str, topic: str, count: int) -> list[ConsumerRecord]:
    config = ClientConfig.from_dict({"bootstrap.servers": broker_address, "auto.offset.reset": "earliest"})
    found: list[ConsumerRecord] = []
    with SimpleConsumer(config) as consumer:
        consumer.assign(TopicPartition(topic, number) for number in range(PARTITIONS))
        end = time.monotonic() + DEADLINE_S
        while len(found) < count:
            assert time.monotonic() < end
            found += consumer.poll(1.0)
    return found


def table(count: int) -> pa.Table:
    return pa.table(
        {
            "k": pa.array([f"key-{n % 50}" if n % 7 else None for n in range(count)]),
            "v": pa.array([b"value-%d" % n if n % 5 else None for n in range(count)]),
            "h": pa.array([[("n", b"%d" % n)] if n % 3 else None for n in range(count)], HEADERS),
            "t": pa.array([1_700_000_000_000 + n for n in range(count)], pa.timestamp("ms", "UTC")),
        }
    )


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("shape", ["table", "chunked", "batch", "slice"])
def test_all_columns(broker_address: str, topic: str, shape: str, codec: str) -> None:
    whole = table(2000)
    rows: Any = whole
    if shape == "chunked":
        rows = pa.concat_tables([whole.slice(0, 700), whole.slice(700)])
    elif shape == "batch":
        rows = whole.combine_chunks().to_batches()[0]
    elif shape == "slice":
        rows = pa.concat_tables([whole.slice(1990), whole]).slice(10)
    with Producer(
        {"bootstrap.servers": broker_address, "compression.type": codec, "batch.size": 20_000, "buffer.memory": 200_000}
    ) as producer:
        futures = producer.send_arrow(topic, rows, value="v", key="k", headers="h", timestamp="t")
        assert sum(future.count for future in futures) == 2000
        for future in futures:
            first, last = future.result(DEADLINE_S)
            assert last - first == future.count - 1
    found = read(broker_address, topic, 2000)
    assert len(found) == 2000
    numbers = {
        partition: [r.timestamp - 1_700_000_000_000 for r in found if r.partition == partition]
        for partition in range(3)
    }
    assert all(each == sorted(each) for each in numbers.values()), "rows keep their order"
    for record in found:
        n = record.timestamp - 1_700_000_000_000
        assert record.key == (f"key-{n % 50}".encode() if n % 7 else None)
        assert record.value == (b"value-%d" % n if n % 5 else None)
        assert record.headers == ((("n", b"%d" % n),) if n % 3 else ())
        if record.key is not None:
            assert record.partition == partition_for_key(record.key, PARTITIONS)


def test_without_keys(broker_address: str, topic: str) -> None:
    with Producer({"bootstrap.servers": broker_address, "batch.size": 1000}) as producer:
        before = int(time.time() * 1000)
        values = pa.table({"value": pa.array([f"{n:050}" for n in range(600)], pa.large_string())})
        futures = producer.send_arrow(topic, values)
        assert len({future.partition for future in futures}) == PARTITIONS, "a batch each, then another partition"
        producer.send_arrow(topic, pa.table({"value": pa.array(["x"]).dictionary_encode()}), partition=2, timestamp=5)
        assert producer.send_arrow(topic, values.slice(0, 0)) == []
    found = read(broker_address, topic, 601)
    assert sorted(r.value or b"" for r in found) == sorted([b"%050d" % n for n in range(600)] + [b"x"])
    (last,) = [record for record in found if record.value == b"x"]
    assert (last.partition, last.timestamp) == (2, 5)
    assert all(record is last or record.timestamp >= before for record in found)


def test_partitions_in_a_column(broker_address: str, topic: str) -> None:
    columns = {
        "value": pa.array([b"a", b"b", b"c", b"d"]),
        "key": pa.array([b"k", b"k", b"k", b"k"]),
        "to": pa.array([0, 1, 2, None], pa.int64()),
        "at": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 3 + [None], pa.timestamp("us", "UTC")),
    }
    with Producer({"bootstrap.servers": broker_address}) as producer:
        producer.send_arrow(topic, pa.table(columns), key="key", partition="to", timestamp="at")
    places = {record.value: record.partition for record in read(broker_address, topic, 4)}
    assert places == {b"a": 0, b"b": 1, b"c": 2, b"d": partition_for_key(b"k", PARTITIONS)}


def test_what_cannot_be_sent(broker_address: str, topic: str) -> None:
    good = pa.table({"value": ["x"], "n": [1], "minus": [-1], "large": [b"x" * 2_000_000], "far": [9]})
    with Producer({"bootstrap.servers": broker_address}) as producer:
        for error, match, columns in (
            (ValueError, "no column 'v'; the columns are value", {"value": "v"}),
            (TypeError, "column 'n' is int64; keys and values", {"key": "n"}),
            (TypeError, "column 'value' is string; expected integers", {"partition": "value"}),
            (TypeError, "column 'value' is string; expected timestamps", {"timestamp": "value"}),
            (ValueError, "times before 1970", {"timestamp": "minus"}),
            (ValueError, "timestamp -1", {"timestamp": -1}),
            (RowError, "Invalid partition: -1", {"partition": "minus"}),
            (MessageTooLargeError, "max.request.size", {"value": "large"}),
            (UnknownTopicOrPartitionError, "no partition 9", {"partition": "far"}),
            (UnknownTopicOrPartitionError, "no partition 9", {"partition": 9}),
        ):
            with pytest.raises(error, match=match):
                producer.send_arrow(topic, good, **columns)
    with (
        Producer({"bootstrap.servers": broker_address, "partitioner.class": "round_robin"}) as producer,
        pytest.raises(ValueError, match="needs partition="),
    ):
        producer.send_arrow(topic, good)


def test_in_transactions(broker_address: str) -> None:
    site = Site(broker_address)
    with site.producer(compression_type="lz4") as producer:
        producer.init_transactions()
        for name in ("kept", "dropped", "again"):
            producer.begin_transaction()
            producer.send_arrow(site.topic, pa.table({"v": [f"{name}-{n}" for n in range(1000)]}), value="v", key="v")
            producer.abort_transaction() if name == "dropped" else producer.commit_transaction()
    counts = Counter((value or b"").split(b"-")[0] for value in site.read())
    assert counts == {b"kept": 1000, b"again": 1000}
