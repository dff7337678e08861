"""Test that a whole data directory of ours works with Apache Kafka 3.9 with ZooKeeper, and then with us again.

Kafka finds the topics in its ZooKeeper as if it had made them; the directory it starts on is the one that our broker
left, with its meta.properties and checkpoints.
"""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from broker.log.append.validation import Origin
from broker.log.directories.checkpoints import read_meta_properties, read_partition_metadata
from broker.log.log import Log
from broker.log.log_config import LogConfig
from broker.log.tools import targets, verify
from broker.log.tools.dump import dump_file
from kafkalog.records.compression import Codec
from kafkalog.storage import names
from kafkalog.storage.properties import encode_uuid
from peers import require
from peers.brokers import kafka
from peers.brokers.zookeeper import ZooKeeper
from peers.clients.base import CODECS, ClientError, Record
from peers.clients.confluent import ConfluentClient
from tests.broker.log.support import batch, marker
from tests.foreign.directories.support import SEGMENTS, TINY_SEGMENTS, Topic, ends_at, first_at
from tests.foreign.records import BASE_TIME, RECORDS, placed
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

VERSION = kafka.KAFKA_3
TOOL = "kafka.tools.DumpLogSegments"
PLAIN, TINY, TRANSACTIONS = "plain", "tiny", "transactions"
CONFIGS = {PLAIN: SEGMENTS, TINY: TINY_SEGMENTS, TRANSACTIONS: SEGMENTS}
BROKER = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.index.size.max.bytes": "65536",
}
COMPLAINT = re.compile(
    r"mismatch|corrupt|exception|error|not found|out of order|followed by|invalid bytes|: false", re.I
)
TIMES = [BASE_TIME - 1, BASE_TIME + 31, BASE_TIME + 150, BASE_TIME + 420]


@dataclass
class Ours:
    """The log directory that our broker left, and what is in it."""

    directory: Path
    topics: dict[str, Topic]


def write_by_clients(client: ConfluentClient) -> dict[str, Topic]:
    """Every codec, idempotent and not; several segments and very many."""
    for name, config in CONFIGS.items():
        client.create_topic(name, config=config)
    noise = random.Random(3)
    plain: list[Record] = []
    for codec in CODECS:
        bulk = tuple(Record(b"%d" % i, noise.randbytes(1500), (), BASE_TIME + 400 + i) for i in range(24))
        for idempotent in (True, False):
            for records in (RECORDS, bulk[:12], bulk[12:]):
                client.produce(PLAIN, 0, records, codec=codec, idempotent=idempotent)
                plain += records
    tiny: list[Record] = []
    for number in range(60):
        records = tuple(Record(b"%d" % i, b"%0300d" % number, (), BASE_TIME + number) for i in range(4))
        client.produce(TINY, 0, records, codec=CODECS[number % len(CODECS)])
        tiny += records
    written = {PLAIN: placed(tuple(plain)), TINY: placed(tuple(tiny))}
    return {
        name: Topic(len(records), records, records, {at: first_at(records, at) for at in TIMES})
        for name, records in written.items()
    }


def write_transactions(directory: Path) -> Topic:
    """Transactions of three producers, interleaved, most of them aborted, over several segments."""
    config = LogConfig(segment_bytes=8_000, index_interval_bytes=1024, segment_index_bytes=65536)
    log = Log.open(directory, config, clean=True, now_ms=BASE_TIME)
    sequences = dict.fromkeys((100, 101, 102), 0)
    everything: list[Record] = []
    committed: list[Record] = []

    def data(producer_id: int, *, kept: bool) -> None:
        first = log.log_end_offset
        codec = list(Codec)[first % 5]
        sent = [b"%d of %d " % (first + i, producer_id) * 20 for i in range(10)]
        log.append_batch(
            batch(
                sent, key=b"k", timestamp=BASE_TIME + first, codec=codec, producer_id=producer_id, producer_epoch=1,
                base_sequence=sequences[producer_id], is_transactional=True,
            ),
            leader_epoch=0, now_ms=BASE_TIME, in_transaction=True,
        )  # fmt: skip
        sequences[producer_id] += 10
        records = [Record(b"k", value, (), BASE_TIME + first, first + i) for i, value in enumerate(sent)]
        everything.extend(records)
        if kept:
            committed.extend(records)

    def end(producer_id: int, *, commit: bool) -> None:
        data = marker(producer_id, epoch=1, commit=commit, coordinator_epoch=3)
        log.append_batch(data, leader_epoch=0, now_ms=BASE_TIME, origin=Origin.COORDINATOR)

    for _ in range(8):
        data(100, kept=True)
        data(101, kept=False)
        data(100, kept=True)
        end(101, commit=False)
        data(102, kept=False)
        end(100, commit=True)
        data(102, kept=False)
        end(102, commit=False)
    assert len(log.segments) > 2
    log.close()
    return Topic(log.log_end_offset, everything, committed)


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Ours:
    require(kafka.missing(VERSION))
    with KafkalogBroker(
        tmp_path_factory.mktemp("ours"), {"broker.id": "0", "log.index.size.max.bytes": "65536"}
    ) as broker:
        with closing(ConfluentClient(broker.bootstrap)) as client:
            topics = write_by_clients(client)
        assert broker.stop() == 0
    topics[TRANSACTIONS] = write_transactions(broker.log_dir / f"{TRANSACTIONS}-0")
    return Ours(broker.log_dir, topics)


def kafkas_dump(files: list[Path], *options: str) -> str:
    return kafka.run_java_tool(TOOL, ["--files", ",".join(map(str, files)), *options], VERSION)


def ours_dump(files: list[Path], **options: bool) -> list[str]:
    return [line for file in files for line in dump_file(file, **options)]  # type: ignore[arg-type]


def test_kafkas_tool_finds_nothing_wrong(ours: Ours) -> None:
    """In any file of any kind, and what it prints is what ours prints."""
    files = sorted(path for path in ours.directory.glob("*-0/*.*") if names.offset_of(path.name) is not None)
    kinds = {kind: [path for path in files if path.suffix == kind] for kind in {path.suffix for path in files}}
    assert set(kinds) == {".log", ".index", ".timeindex", ".txnindex", ".snapshot"}
    indexes = kinds[".index"] + kinds[".timeindex"]
    everything = kafkas_dump(files, "--deep-iteration")
    assert not COMPLAINT.search(everything.replace("isTransactional: false", "").replace("isControl: false", ""))
    assert everything.splitlines() == ours_dump(files, deep_iteration=True)
    sanity = kafkas_dump(indexes, "--index-sanity-check")
    assert sanity.splitlines() == ours_dump(indexes, index_sanity_check=True)
    assert sanity.count("passed sanity check") + sanity.count("is empty") == len(indexes)
    only = kafkas_dump(indexes, "--verify-index-only")
    assert not COMPLAINT.search(only)
    assert only.splitlines() == ours_dump(indexes, verify_index_only=True)


def register(zookeeper: ZooKeeper, directory: Path) -> None:
    """Tell ZooKeeper of the cluster and its topics, as Kafka's controller would have."""
    cluster_id = read_meta_properties(str(directory))["cluster.id"]
    zookeeper.make("/cluster/id", json.dumps({"version": "1", "id": cluster_id}).encode())
    # Ids that our broker gave to producers are not given again.
    block = {"version": 1, "broker": 0, "block_start": "100000", "block_end": "100999"}
    zookeeper.make("/latest_producer_id_block", json.dumps(block).encode())
    for name, config in CONFIGS.items():
        topic_id = read_partition_metadata(str(directory / f"{name}-0"))
        assert topic_id is not None
        assignment = {
            "version": 3, "partitions": {"0": [0]}, "topic_id": encode_uuid(topic_id), "adding_replicas": {},
            "removing_replicas": {},
        }  # fmt: skip
        zookeeper.make(f"/brokers/topics/{name}", json.dumps(assignment).encode())
        zookeeper.make(f"/config/topics/{name}", json.dumps({"version": 1, "config": config}).encode())


@pytest.fixture(scope="module")
def apache(ours: Ours, tmp_path_factory: pytest.TempPathFactory) -> Iterator[kafka.ZooKeeperKafka]:
    """Apache Kafka on a copy of our directory."""
    root = tmp_path_factory.mktemp("apache")
    shutil.copytree(ours.directory, root / "kafka" / "data")
    with ZooKeeper(VERSION, root / "zookeeper") as zookeeper:
        zookeeper.wait()
        register(zookeeper, ours.directory)
        broker = kafka.ZooKeeperKafka(
            VERSION, zookeeper.address, directory=root / "kafka", config=BROKER, heap=("-Xmx256M",)
        )
        with broker:
            yield broker


def led(client: ConfluentClient, topic: str) -> bool:
    try:
        client.list_offset(topic, 0, "latest")
    except ClientError:
        return False
    return True


def served(client: ConfluentClient, name: str, topic: Topic) -> None:
    assert client.list_offset(name, 0, "latest")[0] == topic.end
    assert client.consume(name, 0, 0, topic.end) == topic.records
    assert client.consume(name, 0, 0, topic.end, isolation="read_committed") == topic.committed
    assert {at: client.list_offset(name, 0, str(at))[0] for at in topic.times} == topic.times


def test_kafka_serves_our_directory_and_we_what_it_made_of_it(ours: Ours, apache: kafka.ZooKeeperKafka) -> None:
    topics = dict(ours.topics)
    with closing(ConfluentClient(apache.bootstrap)) as client:
        for name, topic in topics.items():
            wait_until(partial(led, client, name), f"{name} has a leader")
            served(client, name, topic)
            added = placed(RECORDS[:5], topic.end)
            got = client.produce(name, 0, RECORDS[:5], idempotent=True)
            assert got == [record.offset for record in added]
            topics[name] = Topic(topic.end + 5, topic.records + added, topic.committed + added, topic.times)
        topic = topics[TRANSACTIONS]
        client.produce(TRANSACTIONS, 0, RECORDS[:7], transaction="abort")
        wait_until(partial(ends_at, client, topic.end + 8), "the marker is written")
        topics[TRANSACTIONS] = Topic(topic.end + 8, topic.records + placed(RECORDS[:7], topic.end), topic.committed)
    apache.stop()
    found = verify.verify(targets.find([str(apache.log_dir)]))
    assert not found.wrong, [str(finding) for finding in found.all_findings]

    back = KafkalogBroker(apache.directory / "back", {"broker.id": "0", "log.retention.ms": "-1"})
    shutil.copytree(apache.log_dir, back.log_dir)
    with back, closing(ConfluentClient(back.bootstrap)) as client:
        for name, topic in topics.items():
            served(client, name, topic)
        assert client.describe_config(TINY)["segment.bytes"] == TINY_SEGMENTS["segment.bytes"]
