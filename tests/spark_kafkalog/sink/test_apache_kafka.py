"""Tests of writing to Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from peers.brokers import kafka
from peers.brokers.kafka import ApacheKafka
from peers.cache import require
from tests.spark_kafkalog.conftest import Reads
from tests.spark_kafkalog.sink.conftest import Writes
from tests.spark_kafkalog.sink.draining import Query
from tests.spark_kafkalog.sink.support import Tasks, batch_of, columns, consume
from tests.spark_kafkalog.sink.transactional.committed import Died, Sink
from tests.spark_kafkalog.topics import CODECS, DEADLINE_S, Topics, numbers

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def apache_kafka() -> Iterator[ApacheKafka]:
    require(kafka.missing())
    with ApacheKafka() as running:
        yield running


class KnownTopics(Topics):
    """Waits until the broker, which hears of topics from its controller, knows the new ones."""

    def create_named(self, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
        super().create_named(name, partitions, config)
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "allow.auto.create.topics": False})
        deadline = time.monotonic() + DEADLINE_S
        while True:
            known = admin.list_topics(timeout=10).topics.get(name)
            if known and len(known.partitions) == partitions and all(p.leader >= 0 for p in known.partitions.values()):
                return
            assert time.monotonic() < deadline, f"{name} has no leaders"
            time.sleep(0.05)


@pytest.fixture(scope="module")
def topics(apache_kafka: ApacheKafka) -> Topics:
    return KnownTopics(apache_kafka.bootstrap)


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec(topics: Topics, codec: str) -> None:
    topic = topics.create(codec, 3)
    schema = columns("key", "value", "headers")
    rows = [
        {"key": each, "value": each if len(each) > 1 else None, "headers": [{"key": "n", "value": each}]}
        for each in numbers(5000)
    ]
    said = Tasks(topics.bootstrap).write(
        schema, [batch_of(schema, rows)], topic=topic, **{"kafka.compression.type": codec, "kafka.batch.size": 20_000}
    )
    found = consume(topics.bootstrap, topic)
    seen = sorted((int(each.key or b""), each.value, each.headers) for each in found)
    assert seen == [(n, row["value"], [("n", b"%d" % n)]) for n, row in enumerate(rows)]
    for tp, each in said.partitions.items():
        offsets = [record.offset for record in found if record.partition == tp.partition]
        assert (each.first_offset, each.last_offset, each.rows) == (offsets[0], offsets[-1], len(offsets))


def test_batches_larger_than_the_topic_takes_are_split(topics: Topics) -> None:
    topic = topics.create("small", config={"max.message.bytes": "3000"})
    schema = columns("value")
    values = [b"%04d" % n * 25 for n in range(500)]
    Tasks(topics.bootstrap).write(schema, [batch_of(schema, [{"value": value} for value in values])], topic=topic)
    assert sorted(each.value or b"" for each in consume(topics.bootstrap, topic)) == values


@pytest.mark.parametrize("point", ["before-decision", "after-decision", "between-commits"])
def test_exactly_once(topics: Topics, die_at: Callable[[str | None], None], point: str) -> None:
    """Apache Kafka ends transactions for somebody else, and again, and tells which are left open."""
    sink = Sink(topics, topics.create("once", 3))
    for number in range(3):
        batch = sink.batch(number)
        tasks = [batch.task([b"%d-%d" % (number, task)]) for task in range(3)]
        failed = batch.task([b"not chosen"])
        assert failed.transaction
        if number == 1:
            die_at(point)
            with pytest.raises(Died):
                batch.commit(*tasks)
            die_at(None)
            batch = sink.batch(number)
            tasks = [batch.task([b"%d-%d" % (number, task)]) for task in range(3)]
        batch.commit(*tasks)
    assert sink.seen() == [b"%d-%d" % (number, task) for number in range(3) for task in range(3)]


def test_in_spark(topics: Topics, spark: SparkSession, tmp_path: Path) -> None:
    first, second, third = topics.create("first", 2), topics.create("second", 5), topics.create("third", 2)
    writes = Writes(spark, topics.bootstrap)
    frame = spark.range(20_000).selectExpr("cast(id AS STRING) AS key", "cast(id AS STRING) AS value")
    writes.batch(frame, topic=first)
    stream = Reads(spark, topics.bootstrap).stream(subscribe=first, startingOffsets="earliest")
    Query(writes, tmp_path, topic=second).drain(stream.select("key", "value"))
    found = consume(topics.bootstrap, second)
    assert sorted(int(each.value or b"") for each in found) == list(range(20_000))
    # librdkafka has Java's partitioner.
    topics.produce(
        third,
        [{"key": each.key, "value": each.value} for each in found[:500]],
        config={"partitioner": "murmur2_random"},
    )
    places = {each.key: each.partition for each in consume(topics.bootstrap, first)}
    assert all(places[each.key] == each.partition for each in consume(topics.bootstrap, third))
