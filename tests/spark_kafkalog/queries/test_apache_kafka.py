"""Tests of reading from Apache Kafka: its codecs, its transactions, its compacted topics."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from kafkalog.client.admin.groups.offsets import GroupOffsets
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.types import TopicPartition
from peers.brokers import kafka
from peers.brokers.kafka import ApacheKafka
from peers.cache import require
from spark_kafkalog.driver.discovery import Discovery
from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.plan.support import options_for, spans
from tests.spark_kafkalog.queries.streaming import Sink, wait_for
from tests.spark_kafkalog.queries.transactions import transact
from tests.spark_kafkalog.topics import CODECS, DEADLINE_S, Topics, numbers
from tests.spark_kafkalog.without_spark import Batch, Stream, chosen

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def apache_kafka() -> Iterator[ApacheKafka]:
    require(kafka.missing())
    with ApacheKafka(config={"log.cleaner.backoff.ms": "100"}) as running:
        yield running


@pytest.fixture(scope="module")
def topics(apache_kafka: ApacheKafka) -> Topics:
    return Topics(apache_kafka.bootstrap)


@pytest.fixture(scope="module")
def batch(apache_kafka: ApacheKafka) -> Batch:
    return Batch(apache_kafka.bootstrap)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(batch: Batch, topics: Topics, codec: str) -> None:
    topic = topics.create(codec, 2)
    sent = topics.produce(topic, numbers(5000), config={"compression.type": codec})
    rows = batch.rows(chosen("partition", "offset", "value"), subscribe=topic)
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == sorted(
        (each.partition, each.offset, each.value) for each in sent
    )


def test_a_stream_in_spark(topics: Topics, spark: SparkSession, tmp_path: Path) -> None:
    sink = Sink(spark, tmp_path)
    reads = Reads(spark, topics.bootstrap)
    topic = topics.create("stream", 3)
    topics.produce(topic, numbers(1000))
    frame = reads.stream(subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=300)
    sink.drain(frame)
    topics.produce(topic, numbers(500, 1000))
    sink.drain(frame)
    assert sorted(sink.values()) == sorted(numbers(1500))  # type: ignore[type-var]


def test_lag_tools_see_what_a_query_has_read(topics: Topics, spark: SparkSession, tmp_path: Path) -> None:
    """The last batch of a run included, without a listener: with Trigger.AvailableNow and in a run that goes on."""
    topic = topics.create("lag", 2)
    group = f"{topic}-group"
    admin = AdminClient({"bootstrap.servers": topics.bootstrap})

    def committed() -> dict[int, int]:
        asked = ConsumerGroupTopicPartitions(group)
        found = admin.list_consumer_group_offsets([asked])[group].result(DEADLINE_S).topic_partitions
        return {each.partition: each.offset for each in found if each.topic == topic}

    with Cluster(ClientConfig.from_dict({"bootstrap.servers": topics.bootstrap})) as cluster:
        # The first group of a cluster makes its offsets topic, which takes longer than a query waits.
        GroupOffsets(cluster, f"{topic}-first").commit({TopicPartition(topic, 0): 0})
    sink = Sink(spark, tmp_path)
    frame = Reads(spark, topics.bootstrap).stream(
        subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger=300, commitGroup=group
    )
    topics.produce(topic, numbers(700), partition=0)
    sink.drain(frame)
    assert committed() == {0: 700, 1: 0}
    query = sink.start(frame, processingTime="50 milliseconds")
    topics.produce(topic, numbers(300, 700), partition=1)
    wait_for(lambda: committed() == {0: 700, 1: 300}, "committing what was read", query)
    query.stop()


def test_a_group_with_members_is_left_alone(topics: Topics, caplog: pytest.LogCaptureFixture) -> None:
    topic = topics.create("members")
    topics.produce(topic, numbers(10), partition=0)
    consumer = Consumer({"bootstrap.servers": topics.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    assert consumer.consume(1, timeout=DEADLINE_S)
    query = Stream(topics.bootstrap, subscribe=topic, startingOffsets="earliest", commitGroup=topic)
    query.drain()
    consumer.close()
    assert query.values() == numbers(10)
    assert f"offsets are not committed to group {topic}" in caplog.text
    assert "UNKNOWN_MEMBER_ID" in caplog.text


def test_a_topic_created_again(topics: Topics) -> None:
    topic = topics.create("again")
    topics.produce(topic, numbers(5), partition=0)
    query = Stream(topics.bootstrap, subscribe=topic, startingOffsets="earliest", failOnDataLoss=False)
    query.start()
    query.trigger()
    topics.delete(topic)
    topics.create_named(topic)
    topics.produce(topic, numbers(8, 100), partition=0)
    query.start()
    query.trigger()
    query.stop()
    assert [row["value"] for row in query.rows] == numbers(5) + numbers(8, 100)


def test_sizes_are_found_by_headers(topics: Topics) -> None:
    """Kafka leaves out a batch that is larger than its partition's share, but for the first of a response."""
    topic = topics.create("headers", 3)
    for partition in range(3):
        for size in (10, 5000, 100, 20_000):
            topics.produce(topic, [b"x" * size] * (partition + 3), partition)
    discovery = Discovery(options_for(topics, topic))
    logs = {tp: spans(topics.bootstrap, tp) for tp in (TopicPartition(topic, number) for number in range(3))}
    for at in range(12):
        assert discovery.densities(dict.fromkeys(logs, at)) == {
            tp: size / (behind - base) for tp, log in logs.items() for base, behind, size in log if base <= at < behind
        }
    discovery.close()
    query = Stream(topics.bootstrap, subscribe=topic, startingOffsets="earliest", maxBytesPerTrigger="100k")
    assert 3 <= query.drain() <= 6, "about 300 KB"


def test_transactions(batch: Batch, topics: Topics) -> None:
    topic = topics.create("transactions")
    parts = [
        (numbers(10), True),
        (numbers(10, 10), False),
        (numbers(10, 20), True),
        (numbers(10, 30), False),
        (numbers(10, 40), False),
        (numbers(10, 50), True),
    ]
    transact(topics, topic, parts)
    topics.produce(topic, numbers(5, 60), partition=0)
    committed = [value for values, commit in parts for value in values if commit] + numbers(5, 60)
    level = "kafka.isolation.level"
    assert batch.values(subscribe=topic, **{level: "read_committed"}) == committed
    # Six markers take offsets of their own, and nobody sees them.
    rows = batch.rows(subscribe=topic, **{level: "read_uncommitted"})
    assert [row["value"] for row in rows] == numbers(65)
    assert rows[-1]["offset"] == 70


def test_transactions_in_tasks_and_triggers_of_any_size(batch: Batch, topics: Topics) -> None:
    """Ranges begin and end anywhere: within aborted records, at markers, behind them."""
    topic = topics.create("cut")
    parts = [(numbers(7, 10 * at), at % 3 != 1) for at in range(12)]
    transact(topics, topic, parts)
    committed = [value for values, commit in parts for value in values if commit]
    options = {"subscribe": topic, "kafka.isolation.level": "read_committed", "startingOffsets": "earliest"}
    for size in (1, 4, 9):
        assert batch.values(**options, maxRecordsPerPartition=size) == committed
        query = Stream(topics.bootstrap, **options, maxOffsetsPerTrigger=size)
        query.drain()
        assert query.values() == committed


def test_an_open_transaction_ends_what_is_there(batch: Batch, topics: Topics) -> None:
    topic = topics.create("open")
    topics.produce(topic, numbers(3), partition=0)
    producer = Producer({"bootstrap.servers": topics.bootstrap, "transactional.id": topic})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(DEADLINE_S)
    topics.produce(topic, numbers(3, 3), partition=0)
    assert batch.values(subscribe=topic, **{"kafka.isolation.level": "read_committed"}) == numbers(3)
    assert len(batch.values(subscribe=topic)) == 7
    producer.commit_transaction(DEADLINE_S)


def test_a_compacted_topic(batch: Batch, topics: Topics) -> None:
    """Offsets without records are no loss; ranges may begin and end in them."""
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.001",
        "segment.ms": "100",
        "max.compaction.lag.ms": "100",
    }
    topic = topics.create("compacted", config=config)
    for start in range(0, 300, 100):
        topics.produce(
            topic, [{"key": b"%d" % (n % 10), "value": b"%d" % n} for n in range(start, start + 100)], partition=0
        )
        time.sleep(0.2)
    end = time.monotonic() + DEADLINE_S
    # The active segment is never compacted: one more record makes it roll.
    while len(values := [value for value in batch.values(subscribe=topic) if value != b"roll"]) > 10:
        assert time.monotonic() < end, f"{len(values)} records are left of 300"
        topics.produce(topic, [{"key": b"roll", "value": b"roll"}], partition=0)
        time.sleep(0.2)
    assert values == numbers(10, 290)
    limits = {
        "startingOffsets": json.dumps({topic: {"0": 20}}),
        "endingOffsets": json.dumps({topic: {"0": 295}}),
    }
    assert batch.values(subscribe=topic, **limits) == numbers(5, 290)
    limits["endingOffsets"] = json.dumps({topic: {"0": 250}})
    assert batch.values(subscribe=topic, **limits) == []
