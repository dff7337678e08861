"""Test that directories of running and stopped brokers, ours and Apache Kafka, have the rows that they serve."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from peers.brokers import kafka
from peers.brokers.kafka import ApacheKafka
from peers.cache import require
from spark_kafkalog.data_loss import DataLossError
from tests.spark_kafkalog.offline.written import offsets, plan, rows
from tests.spark_kafkalog.queries.transactions import transact
from tests.spark_kafkalog.topics import CODECS, DEADLINE_S, T0_MS, Topics, numbers
from tests.spark_kafkalog.without_spark import Batch
from tests.support.kafkalog_broker import KafkalogBroker

LEVELS = ["read_uncommitted", "read_committed"]
SMALL_SEGMENTS = {"segment.bytes": str(1 << 20)}


class Site(NamedTuple):
    """A running broker, and where its log is."""

    topics: Topics
    batch: Batch
    log_dir: Path

    def check(self, topic: str, **options: object) -> int:
        """Both ways read the same rows; how many."""
        served = self.batch.rows(subscribe=topic, includeHeaders=True, **options)
        found = rows(self.log_dir, subscribe=topic, includeHeaders=True, **options)
        assert found == served
        return len(found)


@pytest.fixture(scope="module")
def apache(processes: None) -> Iterator[Site]:
    require(kafka.missing())
    with ApacheKafka() as running:
        yield Site(Topics(running.bootstrap), Batch(running.bootstrap), running.log_dir)


@pytest.fixture(scope="module")
def ours(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with KafkalogBroker(tmp_path_factory.mktemp("offline")) as running:
        yield Site(Topics(running.bootstrap), Batch(running.bootstrap), running.log_dir)


@pytest.fixture(params=["ours", pytest.param("apache", marks=pytest.mark.peer)])
def site(processes: None, request: pytest.FixtureRequest) -> Site:
    found: Site = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_and_column(site: Site, codec: str) -> None:
    topic = site.topics.create(codec, 3, SMALL_SEGMENTS)
    records = [
        {
            "key": None if n % 7 == 0 else b"k%d" % (n % 100),
            "value": None if n % 11 == 0 else b"%d-" % n + b"x" * (n % 500),
            "headers": [("h", b"%d" % n), ("h", None)] if n % 3 == 0 else None,
            "timestamp": T0_MS + n,
        }
        for n in range(12_000)
    ]
    # In this order, whatever has to be sent again: the last check counts on it.
    site.topics.produce(topic, records, config={"compression.type": codec, "enable.idempotence": True})
    assert site.check(topic) == 12_000
    assert site.check(topic, minPartitions=16) == 12_000
    tasks = plan(site.log_dir, subscribe=topic, minPartitions=16)
    assert len(tasks) >= 12
    limits = {
        "startingOffsets": json.dumps({topic: {"0": 5, "1": -2, "2": 1000}}),
        "endingOffsets": json.dumps({topic: {"0": 3000, "1": -1, "2": 1001}}),
    }
    assert site.check(topic, **limits) > 3000
    assert site.check(topic, maxRecordsPerPartition=997, **limits) > 3000
    assert site.check(topic, startingTimestamp=T0_MS + 4000, endingTimestamp=T0_MS + 9000) == 5000


@pytest.mark.peer
@pytest.mark.parametrize("level", LEVELS)
def test_transactions(apache: Site, level: str) -> None:
    site = apache
    topic = site.topics.create("transactions", 1, SMALL_SEGMENTS)
    big = [b"%d" % n + b"x" * 2000 for n in range(400)]
    parts = [(numbers(10), True), (big, False), (big, True), (numbers(5), False), (big, False), (numbers(7), True)]
    transact(site.topics, topic, parts)
    site.topics.produce(topic, numbers(5, 60), partition=0)
    options = {"kafka.isolation.level": level}
    count = sum(len(values) for values, commit in parts if commit or level == "read_uncommitted") + 5
    assert site.check(topic, **options) == count
    assert site.check(topic, maxBytesPerPartition=50_000, **options) == count
    # Without what the broker wrote beside the log, the log tells.
    bare = site.log_dir.parent / f"bare-{topic}"
    shutil.copytree(
        site.log_dir / f"{topic}-0", bare / f"{topic}-0", ignore=shutil.ignore_patterns("*.*index", "*.snap*")
    )
    assert sorted({path.suffix for path in bare.glob("*/0*")}) == [".log"]
    assert len(offsets(bare, maxBytesPerPartition=50_000, **options)) == count


@pytest.mark.peer
@pytest.mark.parametrize("level", LEVELS)
def test_an_open_transaction_ends_what_is_there(apache: Site, level: str) -> None:
    site = apache
    topic = site.topics.create("open")
    site.topics.produce(topic, numbers(3), partition=0)
    producer = Producer({"bootstrap.servers": site.topics.bootstrap, "transactional.id": topic})
    producer.init_transactions(DEADLINE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(DEADLINE_S)
    site.topics.produce(topic, numbers(3, 3), partition=0)
    assert site.check(topic, **{"kafka.isolation.level": level}) == (3 if level == "read_committed" else 7)
    producer.commit_transaction(DEADLINE_S)


def test_records_that_were_deleted(site: Site) -> None:
    """The log start lies within a segment, and the checkpoint tells."""
    topic = site.topics.create("deleted")
    site.topics.produce(topic, numbers(100), partition=0)
    site.topics.delete_records(topic, 0, 40)
    until(lambda: f"{topic} 0 40" in checkpoint(site.log_dir))
    assert site.check(topic) == 60


def test_a_deleted_topic_is_gone(site: Site) -> None:
    topic = site.topics.create("gone")
    other = site.topics.create("kept")
    site.topics.produce(topic, numbers(10))
    site.topics.produce(other, numbers(10))
    site.topics.delete(topic)
    until(lambda: not (site.log_dir / f"{topic}-0").exists())
    assert {row["topic"] for row in rows(site.log_dir, subscribePattern=f"^({topic}|{other})$")} == {other}


def checkpoint(log_dir: Path) -> str:
    path = log_dir / "log-start-offset-checkpoint"
    return path.read_text() if path.exists() else ""


def until(holds: Callable[[], bool], deadline_s: float = 120.0) -> None:
    end = time.monotonic() + deadline_s
    while not holds():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.05)


@pytest.mark.parametrize("stopped", [True, False])
def test_after_the_broker_is_gone(start_broker: Callable[..., KafkalogBroker], stopped: bool) -> None:
    broker = start_broker()
    topics = Topics(broker.bootstrap)
    topic = topics.create("after", 2)
    topics.produce(topic, numbers(5000), config={"acks": "all"})
    served = Batch(broker.bootstrap).rows(subscribe=topic)
    assert len(served) == 5000
    if stopped:
        broker.stop()
    else:
        broker.kill()
    assert rows(broker.log_dir, subscribe=topic) == served


@pytest.mark.peer
@pytest.mark.timeout(600)
def test_a_compacted_topic(tmp_path: Path) -> None:
    """Apache Kafka's cleaner at work on keys, tombstones and transactions; then the directory as it leaves it."""
    require(kafka.missing())
    with ApacheKafka(config={"log.cleaner.backoff.ms": "100"}) as apache:
        site = Site(Topics(apache.bootstrap), Batch(apache.bootstrap), apache.log_dir)
        config = {
            "cleanup.policy": "compact",
            "min.cleanable.dirty.ratio": "0.001",
            "segment.ms": "100",
            "max.compaction.lag.ms": "100",
            "delete.retention.ms": "100",
        }
        topic = site.topics.create("compacted", config=config)
        producer = Producer({"bootstrap.servers": apache.bootstrap, "transactional.id": topic})
        producer.init_transactions(DEADLINE_S)
        for start in range(0, 400, 100):
            producer.begin_transaction()
            for n in range(start, start + 100):
                producer.produce(topic, b"%d" % n if n % 9 else None, key=b"%d" % (n % 20), partition=0)
            producer.flush(DEADLINE_S)
            if start % 200:
                producer.abort_transaction(DEADLINE_S)
            else:
                producer.commit_transaction(DEADLINE_S)
            time.sleep(0.2)

        def is_compacted() -> bool:
            site.topics.produce(topic, [{"key": b"roll", "value": b"roll"}], partition=0)
            return len(site.batch.rows(subscribe=topic)) < 60

        until(is_compacted)
        apache.stop()
        apache.start()
        again = Site(Topics(apache.bootstrap), Batch(apache.bootstrap), apache.log_dir)
        for level in LEVELS:
            for size in (1, 1 << 20):
                # The cleaner may be at work between the two reads.
                until(lambda level=level, size=size: same(again, topic, level, size))  # type: ignore[misc]
        assert 0 < len(offsets(apache.log_dir, subscribe=topic)) < 60


def same(site: Site, topic: str, level: str, size: int) -> bool:
    options = {"subscribe": topic, "kafka.isolation.level": level}
    try:
        return site.batch.rows(**options) == rows(site.log_dir, maxBytesPerPartition=size, **options)
    except DataLossError:
        # The cleaner has replaced a segment after the read was planned.
        return False
