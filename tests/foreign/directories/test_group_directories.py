"""Test that a directory with groups moves from Apache Kafka 3.9 to our broker, and back to Kafka."""

from __future__ import annotations

import shutil
import time
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from broker.coordinator.group import records
from broker.log.segment.batch_scan import verified_batches
from kafkalog.protocol.coordinator_records import GroupMetadataValue, OffsetCommitValue
from kafkalog.records.any_format import decode_any
from peers import require
from peers.brokers import kafka
from peers.brokers.zookeeper import ZooKeeper
from tests.foreign.support import DEADLINE_S, RECORDS, consumer, make_topic, produce, take
from tests.support.kafkalog_broker import KafkalogBroker

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

VERSION = kafka.KAFKA_3
PARTITIONS = [TopicPartition("t", index) for index in range(2)]
SETTINGS = {"group.initial.rebalance.delay.ms": "0"}
KAFKA_SETTINGS = {
    **SETTINGS,
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "log.index.size.max.bytes": "65536",
}


def committed(bootstrap: str, group: str) -> list[int]:
    one = consumer(bootstrap, group)
    with closing(one):
        return [found.offset for found in one.committed(PARTITIONS, DEADLINE_S)]


def static_member(bootstrap: str) -> Consumer:
    one = consumer(bootstrap, "static", group_instance_id="one", session_timeout_ms="300000")
    one.subscribe(["t"])
    return one


def assigned(one: Consumer) -> int:
    """Wait until the consumer has partitions; return their number."""
    end = time.monotonic() + DEADLINE_S
    while not one.assignment():
        assert time.monotonic() < end
        one.poll(0.1)
    return len(one.assignment())


def states(bootstrap: str, *groups: str) -> list[str]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    found = admin.describe_consumer_groups(list(groups))
    return [found[group].result(DEADLINE_S).state.name for group in groups]


def write_again(directory: Path) -> int:
    """Read every record of `__consumer_offsets`, write it anew, and find the same bytes; how many there are."""
    count = 0
    for path in sorted(directory.glob("__consumer_offsets-*/*.log")):
        with path.open("rb") as file:
            for _, header, batch in verified_batches(file.fileno(), 0, path.stat().st_size):
                if header.is_control:
                    continue
                for record in decode_any(batch)[1]:
                    assert record.key is not None
                    key = records.parse_key(record.key)
                    if key.type in records.OFFSET_COMMIT_TYPES:
                        assert records.offset_commit_key(key.group, key.topic, key.partition) == record.key
                    else:
                        assert records.group_metadata_key(key.group) == record.key
                    if record.value is not None:
                        if key.topic:
                            again = records.offset_commit_value(
                                records.decode_versioned(OffsetCommitValue, record.value)
                            )
                        else:
                            again = records.group_metadata_value(
                                records.decode_versioned(GroupMetadataValue, record.value)
                            )
                        assert again == record.value
                    count += 1
    return count


def test_groups_go_from_kafka_to_us_and_back(tmp_path: Path) -> None:
    require(kafka.missing(VERSION))
    with ZooKeeper(VERSION, tmp_path / "zookeeper") as zookeeper:
        zookeeper.wait()
        apache = kafka.ZooKeeperKafka(
            VERSION, zookeeper.address, directory=tmp_path / "kafka", config=KAFKA_SETTINGS, heap=("-Xmx256M",)
        )
        with apache:
            make_topic(apache.bootstrap, "t")
            produce(apache.bootstrap, "t", [b"%d" % number for number in range(RECORDS)])
            with closing(consumer(apache.bootstrap, "plain")) as one:
                one.subscribe(["t"])
                take([one], RECORDS)
                one.commit(asynchronous=False)
            # A static member does not leave when it is closed: its generation stays.
            with closing(static_member(apache.bootstrap)) as one:
                assert assigned(one) == 2
            apache.stop()
            assert write_again(apache.log_dir) > 4

            ours = KafkalogBroker(tmp_path / "ours", {"broker.id": "0", **SETTINGS})
            shutil.copytree(apache.log_dir, ours.log_dir)
            with ours:
                assert committed(ours.bootstrap, "plain") == [RECORDS // 2] * 2
                assert states(ours.bootstrap, "plain", "static") == ["EMPTY", "STABLE"]
                with closing(static_member(ours.bootstrap)) as one:
                    assert assigned(one) == 2
                produce(ours.bootstrap, "t", [b"%d" % number for number in range(RECORDS)])
                with closing(consumer(ours.bootstrap, "plain")) as one:
                    one.subscribe(["t"])
                    take([one], RECORDS)
                    one.commit(asynchronous=False)
                with closing(consumer(ours.bootstrap, "ours")) as one:
                    one.commit(offsets=[TopicPartition("t", 0, 3)], asynchronous=False)
                assert ours.stop() == 0

            shutil.rmtree(apache.log_dir)
            shutil.copytree(ours.log_dir, apache.log_dir)
            apache.restart()
            assert committed(apache.bootstrap, "plain") == [RECORDS] * 2
            assert committed(apache.bootstrap, "ours") == [3, -1001]
            assert states(apache.bootstrap, "plain", "static") == ["EMPTY", "STABLE"]
            with closing(static_member(apache.bootstrap)) as one:
                assert assigned(one) == 2
