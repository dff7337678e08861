"""Tests of what is read and refused, without a JVM, so that there can be many."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from kafkalog.client.admin.quotas import QuotaAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError, ConfigError
from kafkalog.protocol.errors import UnknownTopicOrPartitionError
from spark_kafkalog.driver.discovery import Discovery
from spark_kafkalog.executor.batch_pieces import PIECE_ROWS
from spark_kafkalog.offsets import Position
from spark_kafkalog.options.parsing import OptionsError
from tests.spark_kafkalog.executor.support import options_for
from tests.spark_kafkalog.topics import CODECS, T0_MS, Topics, numbers
from tests.spark_kafkalog.without_spark import Batch, chosen
from tests.support.kafkalog_broker import KafkalogBroker

if TYPE_CHECKING:
    pass


@pytest.fixture
def batch(broker_address: str) -> Batch:
    return Batch(broker_address)


# ---------------------------------------------------------------------------------------------- columns


def test_every_column(batch: Batch, topics: Topics) -> None:
    topic = topics.create("columns", 2)
    records: list[dict[str, Any]] = [
        {"key": b"k", "value": b"v", "headers": [("a", b"1"), ("b", None), ("a", b"")]},
        {"key": None, "value": b"", "headers": []},
        {"key": b"", "value": None},
        {"key": bytes(range(256)), "value": "größe".encode()},
    ]
    topics.produce(topic, [{**record, "timestamp": T0_MS + at} for at, record in enumerate(records)], partition=1)
    rows = batch.rows(subscribe=topic, includeHeaders=True)
    for row in rows:
        row["timestamp"] = row["timestamp"].timestamp()
    assert rows == [
        {
            "key": record["key"],
            "value": record["value"],
            "topic": topic,
            "partition": 1,
            "offset": offset,
            "timestamp": pytest.approx((T0_MS + offset) / 1000, abs=1e-4),
            "timestampType": 0,
            # No headers are null, never an empty list.
            "headers": [{"key": name, "value": value} for name, value in record.get("headers", [])] or None,
        }
        for offset, record in enumerate(records)
    ]


def test_log_append_time(batch: Batch, topics: Topics) -> None:
    topic = topics.create("append-time", config={"message.timestamp.type": "LogAppendTime"})
    before = time.time()
    topics.produce(topic, [{"value": b"v", "timestamp": T0_MS}])
    (row,) = batch.rows(subscribe=topic)
    assert row["timestampType"] == 1
    assert before - 1 <= row["timestamp"].timestamp() <= time.time() + 1


@pytest.mark.parametrize("columns", [("value",), ("offset", "key"), ("headers", "topic"), ("timestamp",)])
def test_only_chosen_columns(batch: Batch, topics: Topics, columns: tuple[str, ...]) -> None:
    topic = topics.create("pruned")
    topics.produce(topic, [{"key": b"k", "value": b"x", "headers": [("h", b"1")], "timestamp": T0_MS}])
    (whole,) = batch.rows(subscribe=topic, includeHeaders=True)
    (row,) = batch.rows(chosen(*columns), subscribe=topic)
    assert row == {name: whole[name] for name in columns}
    assert tuple(row) == columns


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(batch: Batch, topics: Topics, codec: str) -> None:
    topic = topics.create(codec, 3)
    sent = topics.produce(
        topic,
        [b"%d" % number * 20 for number in range(20_000)],
        config={"compression.type": codec, "batch.size": 65536},
    )
    rows = batch.rows(chosen("partition", "offset", "value"), subscribe=topic)
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == sorted(
        (each.partition, each.offset, each.value) for each in sent
    )


def test_a_record_larger_than_a_fetch(batch: Batch, topics: Topics) -> None:
    topic = topics.create("large", config={"max.message.bytes": "8000000"})
    values = [b"a" * 10, b"b" * 6_000_000, b"c" * 10]
    topics.produce(topic, values, config={"message.max.bytes": 8_000_000})
    assert batch.values(subscribe=topic, **{"kafka.max.partition.fetch.bytes": 1000}) == values


def test_batches_have_a_sensible_size(batch: Batch, topics: Topics) -> None:
    """Many fetches, many pieces; neither tiny batches for the JVM nor all in one."""
    topic = topics.create("sizes")
    topics.produce(topic, [b"%0100d" % number for number in range(200_000)])
    batches = batch.batches(chosen("value", "offset"), subscribe=topic)
    assert pa.Table.from_batches(batches)["offset"].to_pylist() == list(range(200_000))
    assert all(each.num_rows <= PIECE_ROWS for each in batches)
    assert 4 < len(batches) < 60


# ---------------------------------------------------------------------------------------------- what to read


def test_subscribe_pattern_and_assign(batch: Batch, topics: Topics) -> None:
    stem = topics.name("pattern")
    for name in ("a", "b", "c"):
        topics.create_named(f"{stem}-{name}", 2)
        topics.produce(f"{stem}-{name}", [name.encode()], partition=0)
        topics.produce(f"{stem}-{name}", [name.encode() * 2], partition=1)
    assert batch.values(subscribePattern=f"{stem}-[ab]") == [b"a", b"aa", b"b", b"bb"]
    assert batch.values(subscribePattern=f"{stem}-$") == []
    found = batch.values(subscribePattern=f"(?i){stem.upper()}-")
    assert found == batch.values(subscribePattern=f"^{stem}-.*$"), "it is found anywhere in a name, as in Spark"
    assert set(found) > {b"a", b"aa", b"b", b"bb"}
    assert batch.values(subscribe=f"{stem}-a, {stem}-c") == [b"a", b"aa", b"c", b"cc"]
    assert batch.values(assign=json.dumps({f"{stem}-a": [1], f"{stem}-b": [0, 7]})) == [b"aa", b"b"]


def test_a_topic_that_does_not_exist(batch: Batch) -> None:
    with pytest.raises(UnknownTopicOrPartitionError, match="no-such-topic"):
        batch.values(subscribe="no-such-topic")


def test_a_broker_that_is_not_there() -> None:
    options = {"kafka.default.api.timeout.ms": "300", "fetchOffset.numRetries": 1}
    with pytest.raises(ClientTimeoutError, match=r"127\.0\.0\.1:1"):
        Batch("127.0.0.1:1").values(subscribe="t", **options)


def test_a_name_that_no_host_has() -> None:
    with pytest.raises(ConfigError, match=r"no host that can be found: .*no-such-host"):
        Batch("no-such-host.invalid:9092").values(subscribe="t")


def test_offsets_are_asked_for_again(start_broker: Callable[..., KafkalogBroker]) -> None:
    """`fetchOffset.numRetries` and `fetchOffset.retryIntervalMs`: a broker that starts again is waited for."""
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic = topics.create("retried")
    topics.produce(topic, numbers(3))
    impatient = {"kafka.default.api.timeout.ms": 200, "fetchOffset.retryIntervalMs": 50}
    broker.kill()
    with pytest.raises(ClientTimeoutError):
        Discovery(options_for(topics, topic, **impatient, **{"fetchOffset.numRetries": 1})).latest(Position({}))
    starting = threading.Thread(target=broker.start)
    starting.start()
    try:
        discovery = Discovery(options_for(topics, topic, **impatient, **{"fetchOffset.numRetries": 200}))
        assert list(discovery.latest(Position({})).offsets.values()) == [3]
        discovery.close()
    finally:
        starting.join()


def test_a_reader_above_its_quota_waits(start_broker: Callable[..., KafkalogBroker]) -> None:
    """The broker sends 20,000 bytes at once and nothing until its time is over, for longer than time-outs here."""
    broker = start_broker({"quota.window.num": "3"})
    topics = Topics(broker.bootstrap)
    topic = topics.create("limited")
    values = [b"%04d" % number * 250 for number in range(60)]
    for value in values:
        topics.produce(topic, [value])
    with QuotaAdmin(ClientConfig.from_dict({"bootstrap.servers": broker.bootstrap})) as quotas:
        quotas.alter({"client-id": "limited"}, {"consumer_byte_rate": 10_000})
    options = {"kafka.client.id": "limited", "kafka.request.timeout.ms": 1000, "kafka.default.api.timeout.ms": 1500}
    assert Batch(broker.bootstrap).values(subscribe=topic, **options) == values


# ---------------------------------------------------------------------------------------------- from where, to where


def test_offsets(batch: Batch, topics: Topics) -> None:
    topic = topics.create("offsets", 2)
    topics.produce(topic, numbers(10), partition=0)
    topics.produce(topic, numbers(10, 100), partition=1)

    def read(start: tuple[int, int], end: tuple[int, int]) -> list[bytes | None]:
        return batch.values(
            subscribe=topic,
            startingOffsets=json.dumps({topic: {"0": start[0], "1": start[1]}}),
            endingOffsets=json.dumps({topic: {"0": end[0], "1": end[1]}}),
        )

    assert read((3, -2), (5, 1)) == [b"3", b"4", b"100"]
    assert read((10, 8), (-1, -1)) == [b"108", b"109"]
    assert batch.values(subscribe=topic) == [*numbers(10), *numbers(10, 100)]
    with pytest.raises(OptionsError, match="you must specify all TopicPartitions"):
        batch.values(subscribe=topic, startingOffsets=json.dumps({topic: {"0": 1}}))
    with pytest.raises(OptionsError, match="can't be latest for batch queries"):
        batch.values(subscribe=topic, startingOffsets="latest")
    with pytest.raises(OptionsError, match="lies beyond its end offset"):
        read((11, 0), (-1, -1))


def test_timestamps(batch: Batch, topics: Topics) -> None:
    topic = topics.create("timestamps", 2)
    for partition in (0, 1):
        # Of partition 1 only half as many: the second half of the times has no match there.
        count = 10 - 5 * partition
        records = [{"value": value, "timestamp": T0_MS + 10 * at} for at, value in enumerate(numbers(count))]
        topics.produce(topic, records, partition)

    def read(**options: Any) -> list[bytes | None]:
        return batch.values(subscribe=topic, **options)

    assert read(startingTimestamp=T0_MS + 35, endingTimestamp=T0_MS + 41) == [b"4", b"4"]
    by_partition = json.dumps({topic: {"0": T0_MS + 80, "1": T0_MS + 40}})
    assert read(startingOffsetsByTimestamp=by_partition) == [b"8", b"9", b"4"]
    assert read(endingOffsetsByTimestamp=by_partition) == [*numbers(8), *numbers(4)]
    assert read(endingTimestamp=T0_MS + 70) == [*numbers(7), *numbers(5)]
    with pytest.raises(OptionsError, match="No offset matched from request of topic-partition"):
        read(startingTimestamp=T0_MS + 70)
    assert read(startingTimestamp=T0_MS + 70, startingOffsetsByTimestampStrategy="latest") == numbers(3, 7)


@pytest.mark.parametrize(
    ("options", "sizes"),
    [
        ({}, [100, 20]),
        ({"minPartitions": 5}, [25, 25, 25, 25, 20]),
        ({"maxRecordsPerPartition": 30}, [25, 25, 25, 25, 20]),
        ({"minPartitions": 1}, [100, 20]),
    ],
)
def test_tasks(batch: Batch, topics: Topics, options: dict[str, int], sizes: list[int]) -> None:
    topic = topics.create("tasks", 3)
    topics.produce(topic, numbers(100), partition=0)
    topics.produce(topic, numbers(20, 100), partition=1)
    assert [end - start for _, start, end in batch.tasks(subscribe=topic, **options)] == sizes
    assert batch.values(subscribe=topic, **options) == numbers(120)
