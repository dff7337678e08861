"""Test that our broker serves whole data directories of Apache Kafka 2.8 and 3.9, after a clean stop and after a kill.

Kafka runs with ZooKeeper. One run of each version writes every kind of topic. Our broker must serve what it served.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from broker.log.directories.checkpoints import read_offsets
from broker.log.tools import targets, verify
from broker.log.tools.checks.findings import Level
from broker.log.tools.dump import dump_file
from kafkalog.storage.checkpoints import CorruptCheckpointError
from peers import require
from peers.brokers import kafka
from peers.brokers.zookeeper import ZooKeeper
from peers.clients.base import CODECS, ClientError, Record
from peers.clients.confluent import ConfluentClient
from tests.foreign.directories.support import (
    COMPACT,
    PLAIN,
    SEGMENTS,
    TINY,
    TINY_SEGMENTS,
    TRANSACTIONS,
    Topic,
    ends_at,
    first_at,
)
from tests.foreign.records import BASE_TIME, KEEP, RECORDS, placed
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

VERSIONS = (kafka.KAFKA_2, kafka.KAFKA_3)
DEADLINE_S = 120.0
OLD_CODECS = ("none", "gzip", "snappy", "lz4")
BROKER = {
    # What 3.x needs to keep on writing the old formats.
    "inter.broker.protocol.version": "2.8",
    "log.message.format.version": "2.8",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.cleaner.backoff.ms": "100",
    # Copied files have no holes.
    "log.index.size.max.bytes": "65536",
}
COMPACTED = {
    "cleanup.policy": "compact",
    "segment.bytes": "4096",
    "min.cleanable.dirty.ratio": "0.01",
    **KEEP,
}
FORMATS = {"format-v0": "0.9.0", "format-v1": "0.10.2"}
UPGRADED = "format-upgraded"
DELETED, DELETED_IN = 3, 35
TIMES = [BASE_TIME - 1, BASE_TIME + 7, BASE_TIME + 31, BASE_TIME + 150, BASE_TIME + 420, BASE_TIME + 10**9]
KEYED = tuple(record for record in RECORDS if record.key is not None)[:5]
"""A topic that was compacted is one here, too, and takes no record without a key."""
NO_HEADERS = tuple(replace(record, headers=()) for record in RECORDS)


@dataclass
class Written:
    """The topics by name, and copies of the data directory after `kill -9` and after a clean stop."""

    topics: dict[str, Topic]
    directories: dict[str, Path]


def write_plain(client: ConfluentClient) -> list[Record]:
    """Every codec, idempotent and not, over several segments."""
    client.create_topic(PLAIN, config=SEGMENTS)
    noise = random.Random(2)
    sent: list[Record] = []
    for codec in CODECS:
        bulk = [Record(b"%d" % i, noise.randbytes(1500), (), BASE_TIME + 400 + i) for i in range(40)]
        for idempotent in (True, False):
            for records in (RECORDS, *(tuple(bulk[at : at + 8]) for at in range(0, 40, 8))):
                client.produce(PLAIN, 0, records, codec=codec, idempotent=idempotent)
                sent += records
    return placed(tuple(sent))


def write_tiny_segments(client: ConfluentClient) -> list[Record]:
    """More than a hundred segments of a few batches."""
    client.create_topic(TINY, config=TINY_SEGMENTS)
    records = [Record(b"%d" % i, b"%0300d" % i, (), BASE_TIME + i) for i in range(500)]
    # Not the client's own way of producing, which puts as many records into a batch as there are.
    producer = Producer({"bootstrap.servers": client.bootstrap, "batch.num.messages": 2, "enable.idempotence": True})
    for record in records:
        producer.produce(TINY, record.value, record.key, 0, timestamp=record.timestamp or 0)
    assert producer.flush(DEADLINE_S) == 0
    return placed(tuple(records))


def write_transactions(client: ConfluentClient) -> tuple[list[Record], list[Record]]:
    """All records, and those of committed transactions or none."""
    client.create_topic(TRANSACTIONS, config=SEGMENTS)
    everything: list[Record] = []
    committed: list[Record] = []
    for number, ending in enumerate(("commit", "abort", "abort", "commit", "abort", "")):
        (first, _) = client.list_offset(TRANSACTIONS, 0, "latest")
        codec = CODECS[number % len(CODECS)]
        assert client.produce(TRANSACTIONS, 0, RECORDS, codec=codec, transaction=ending)[0] == first
        after = first + len(RECORDS) + bool(ending)
        wait_until(partial(ends_at, client, after), "the marker is written")
        everything += placed(RECORDS, first)
        if ending != "abort":
            committed += placed(RECORDS, first)
    return everything, committed


def write_compacted(client: ConfluentClient, log_dir: Path) -> list[Record]:
    """Keys again and again, some deleted in the end; what is left once Kafka has compacted all but the last segment."""
    client.create_topic(COMPACT, config=COMPACTED)
    sent = 0
    for number in range(40):
        keys = range(8) if number < DELETED_IN else range(DELETED) if number == DELETED_IN else range(DELETED, 8)
        value = None if number == DELETED_IN else b"%04d " % number * 20
        records = [Record(b"key %d" % key, value, (("n", b"%d" % number),), BASE_TIME + number) for key in keys]
        client.produce(COMPACT, 0, records, codec=CODECS[number % len(CODECS)])
        sent += len(records)

    def cleaned() -> bool:
        bases = sorted(int(path.stem) for path in (log_dir / f"{COMPACT}-0").glob("*.log"))
        try:
            rows = read_offsets(str(log_dir / "cleaner-offset-checkpoint"))
        except CorruptCheckpointError:
            # Made empty before it is written.
            return False
        # How many segments stay depends on how many passes there were: Kafka groups them by their size before a pass.
        return rows.get((COMPACT, 0)) == bases[-1]

    wait_until(cleaned, "the log is cleaned")
    left = client.consume(COMPACT, 0, 0, sent)
    assert len(left) < sent // 2
    last = {record.key: record.value for record in left}
    assert last == {b"key %d" % key: None if key < DELETED else b"0039 " * 20 for key in range(8)}
    return left


def write_old_formats(client: ConfluentClient) -> dict[str, list[Record]]:
    """Topics in message format v0 and v1, and one that went on from v1 to record batches."""
    found: dict[str, list[Record]] = {}
    for topic, version in {**FORMATS, UPGRADED: FORMATS["format-v1"]}.items():
        client.create_topic(topic, config={"message.format.version": version, **SEGMENTS})
        for codec in OLD_CODECS:
            client.produce(topic, 0, NO_HEADERS, codec=codec)
        found[topic] = placed(NO_HEADERS * len(OLD_CODECS))
    # librdkafka says 0 of a record that has no timestamp.
    found["format-v0"] = [replace(record, timestamp=0) for record in found["format-v0"]]
    client.alter_config(UPGRADED, {"message.format.version": "2.8", **SEGMENTS})

    def produced(codec: str) -> bool:
        try:
            client.produce(UPGRADED, 0, RECORDS, codec=codec)
        except ClientError:
            # Headers have no place in the old format, which the broker has not let go of yet.
            return False
        return True

    for codec in CODECS:
        wait_until(partial(produced, codec), f"records in {codec} are produced")
    found[UPGRADED] += placed(RECORDS * len(CODECS), len(found[UPGRADED]))
    return found


def write_everything(client: ConfluentClient, log_dir: Path) -> dict[str, Topic]:
    plain = write_plain(client)
    everything, committed = write_transactions(client)
    written = {
        PLAIN: plain,
        TINY: write_tiny_segments(client),
        TRANSACTIONS: everything,
        COMPACT: write_compacted(client, log_dir),
        **write_old_formats(client),
    }
    topics = {}
    for name, records in written.items():
        end = client.list_offset(name, 0, "latest")[0]
        assert client.consume(name, 0, 0, end) == records
        topic = topics[name] = Topic(end, records, committed if name == TRANSACTIONS else records)
        assert client.consume(name, 0, 0, end, isolation="read_committed") == topic.committed
        if name == COMPACT:
            # Asked while a compaction puts segments into place, Kafka may find nothing.
            topic.times = {at: first_at(records, at) for at in TIMES}
        elif name != "format-v0":
            topic.times = {at: client.list_offset(name, 0, str(at))[0] for at in TIMES}
    return topics


@pytest.fixture(scope="module", params=VERSIONS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Written]:
    version: str = request.param
    require(kafka.missing(version))
    root = tmp_path_factory.mktemp("apache")
    directories = {name: root / name for name in ("killed", "stopped")}
    with ZooKeeper(version, root / "zookeeper") as zookeeper:
        broker = kafka.ZooKeeperKafka(
            version, zookeeper.address, directory=root / "kafka", config=BROKER, heap=("-Xmx256M",)
        )
        # It waits for its ZooKeeper, so that both start at once.
        with broker:
            with closing(ConfluentClient(broker.bootstrap)) as client:
                topics = write_everything(client, broker.log_dir)
            with broker.suspended():
                shutil.copytree(broker.log_dir, directories["killed"])
            broker.stop()
        shutil.copytree(broker.log_dir, directories["stopped"])
    yield Written(topics, directories)
    shutil.rmtree(root, ignore_errors=True)


def test_it_is_what_kafka_leaves(written: Written) -> None:
    """The directories have every kind of file, and only the stopped one says that all is well."""
    for name, directory in written.directories.items():
        assert (directory / ".kafka_cleanshutdown").exists() == (name == "stopped")
        partition = directory / f"{TRANSACTIONS}-0"
        assert {path.suffix for path in partition.iterdir()} >= {
            ".log",
            ".index",
            ".timeindex",
            ".txnindex",
            ".snapshot",
        }
        assert len(list((directory / f"{TINY}-0").glob("*.log"))) > 100
        assert os.path.getsize(directory / "meta.properties")


def test_our_tools_find_nothing_wrong(written: Written) -> None:
    for directory in written.directories.values():
        report = verify.verify(targets.find([str(directory)]))
        assert [str(finding) for finding in report.all_findings if finding.level is Level.ERROR] == []
        for name, topic in written.topics.items():
            assert report.partitions[str(directory / f"{name}-0")].next_offset == topic.end


DUMPS: dict[str, dict[str, Any]] = {
    "--deep-iteration": {"deep_iteration": True},
    "--verify-index-only": {"verify_index_only": True},
    "--index-sanity-check": {"index_sanity_check": True},
}


@pytest.mark.parametrize("written", [kafka.KAFKA_2], indirect=True)
@pytest.mark.parametrize("options", DUMPS)
def test_our_dump_is_kafkas(written: Written, options: str) -> None:
    """Of every file that 2.8 wrote, also those in the old formats; by the tool of 3.9."""
    require(kafka.missing(kafka.KAFKA_3))
    partitions = [written.directories["stopped"] / f"{name}-0" for name in written.topics]
    kinds = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
    files = sorted(path for partition in partitions for path in partition.iterdir() if path.suffix in kinds)
    theirs = kafka.run_java_tool(
        "kafka.tools.DumpLogSegments", ["--files", ",".join(map(str, files)), options], kafka.KAFKA_3
    )
    ours = [line for path in files for line in dump_file(path, problems=[], **DUMPS[options])]
    assert ours == theirs.splitlines()


KINDS = pytest.mark.parametrize("kind", ["killed", "stopped"])


def served(client: ConfluentClient, name: str, topic: Topic) -> None:
    """Every record, to both isolation levels, and the offsets by time."""
    assert client.list_offset(name, 0, "earliest")[0] == 0
    assert client.list_offset(name, 0, "latest")[0] == topic.end
    assert client.consume(name, 0, 0, topic.end) == topic.records
    assert client.consume(name, 0, 0, topic.end, isolation="read_committed") == topic.committed
    assert {at: client.list_offset(name, 0, str(at))[0] for at in topic.times} == topic.times


@KINDS
def test_our_broker_serves_it(
    written: Written, start_broker: Callable[..., KafkalogBroker], tmp_path: Path, kind: str
) -> None:
    """After its own recovery where Kafka was killed; and once more after a kill of ours, then taking new records."""
    shutil.copytree(written.directories[kind], tmp_path / "ours" / "log")
    topics = written.topics
    broker = start_broker({"log.retention.ms": "-1", "broker.id": "0"}, directory=tmp_path / "ours")
    for again in (False, True):
        with closing(ConfluentClient(broker.bootstrap)) as client:
            for name, topic in topics.items():
                served(client, name, topic)
            if again:
                for name, topic in topics.items():
                    got = client.produce(name, 0, KEYED, idempotent=True)
                    assert got == [topic.end + at for at in range(len(KEYED))]
                continue
        broker.kill()
        broker.start()
