"""Test that rows are written in order, once without repeated tasks, while the broker dies and comes back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from kafkalog.client.producer.arrow import arrow_rows as rows
from tests.kafkalog.client.producer import test_faults as faults
from tests.spark_kafkalog.sink.conftest import Writes
from tests.spark_kafkalog.sink.support import Tasks, batch_of, columns, consume
from tests.spark_kafkalog.topics import Topics, numbers
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.tcp_proxy import Proxy

DEADLINE_S = 240.0
VALUES = columns("value", "partition")
QUICK = {
    "kafka.retry.backoff.ms": 10,
    "kafka.retry.backoff.max.ms": 50,
    "kafka.reconnect.backoff.ms": 10,
    "kafka.reconnect.backoff.max.ms": 50,
}
proxied = faults.proxied


def batches_of(values: list[bytes], partitions: int, rows: int = 50, start: int = 0) -> Iterator[pa.RecordBatch]:
    for first in range(start, len(values), rows):
        part = enumerate(values[first : first + rows], first)
        yield batch_of(VALUES, [{"value": value, "partition": number % partitions} for number, value in part])


def check_each_once(bootstrap: str, topic: str, values: list[bytes], partitions: int) -> None:
    found = consume(bootstrap, topic)
    for partition in range(partitions):
        assert [each.value for each in found if each.partition == partition] == values[partition::partitions]


def test_killed_brokers_under_a_task(
    start_broker: Callable[..., KafkalogBroker], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "CHUNK_BYTES", 10_000)
    broker = start_broker()
    faults.new_topic(broker, "t", 2)
    values = numbers(20_000)

    def interrupted() -> Iterator[pa.RecordBatch]:
        for number, batch in enumerate(batches_of(values, 2)):
            yield batch
            if number % 120 == 60:
                broker.kill()
                broker.start()

    said = Tasks(broker.bootstrap).write(VALUES, interrupted(), topic="t", **QUICK)
    check_each_once(broker.bootstrap, "t", values, 2)
    assert [(each.rows, each.first_offset, each.last_offset) for _, each in sorted(said.partitions.items())] == [
        (10_000, 0, 9_999)
    ] * 2


@pytest.mark.parametrize("limit", [{}, {"max_message_bytes": "700"}], ids=["whole", "split"])
def test_broken_connections_under_a_task(
    proxied: tuple[KafkalogBroker, Proxy], limit: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "CHUNK_BYTES", 2_000)
    broker, proxy = proxied
    faults.new_topic(broker, "t", 3, **limit)
    values: list[bytes] = []
    proxy.harm = 0.05

    def until_broken_often() -> Iterator[pa.RecordBatch]:
        deadline = time.monotonic() + DEADLINE_S
        while proxy.broken < 20:
            assert time.monotonic() < deadline
            start = len(values)
            values.extend(numbers(60, start))
            yield from batches_of(values, 3, start=start)
        proxy.harm = 0.0

    # Little memory, so that rows do not run ahead of what is sent.
    options = {**QUICK, "kafka.compression.type": "lz4", "kafka.buffer.memory": 5_000}
    Tasks(broker.bootstrap).write(VALUES, until_broken_often(), topic="t", **options)
    check_each_once(broker.bootstrap, "t", values, 3)


@pytest.mark.spark
def test_a_killed_broker_under_spark(spark: SparkSession, start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic = topics.create("killed", 2)
    rows = 1_000_000
    frame = spark.range(0, rows, 1, 4).selectExpr("cast(id AS STRING) AS key", "repeat('x', 200) AS value")
    logs = [broker.log_dir / f"{topic}-{partition}" / f"{0:020}.log" for partition in range(2)]
    written = threading.Event()
    killed = threading.Event()

    def kill() -> None:
        while not all(log.exists() and log.stat().st_size > 1 << 20 for log in logs):
            time.sleep(0.001)
        broker.kill()
        if not written.is_set():
            killed.set()
        broker.start()

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    # Not on another thread than the test's: Spark finds sources in Python only where the session is the active one.
    Writes(spark, broker.bootstrap).batch(frame, topic=topic, **QUICK)
    written.set()
    killer.join(DEADLINE_S)
    assert not killer.is_alive()
    assert killed.is_set(), "everything was written before the broker was killed"
    # local[2] repeats no task.
    found = consume(broker.bootstrap, topic)
    assert len(found) == rows
    assert {int(each.key or b"") for each in found} == set(range(rows))
