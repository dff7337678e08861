"""The metrics of a connector: their names, and what they count with the real ZooKeeper and a broker."""

from __future__ import annotations

import uuid

import pytest

from kafkalog.client.connector import ConsumerConnector
from kafkalog.client.connector.metrics import Readings, named
from kafkalog.client.types import TopicPartition
from tests.support.member import MemberCluster
from tests.support.waiting import wait_until


def test_names_and_rates() -> None:
    a0, a1, b0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b.c", 0)
    found = named(Readings(4.0, {"a": 6, "b.c": 2}, {"a": 60}, [a0, a1, b0], {a0: 3, b0: 7}, 2, 30, 5, 1))
    assert found == {
        "MessagesPerSec.Count": 8,
        "MessagesPerSec.MeanRate": 2.0,
        "MessagesPerSec.Count,topic=a": 6,
        "MessagesPerSec.MeanRate,topic=a": 1.5,
        "MessagesPerSec.Count,topic=b.c": 2,
        "MessagesPerSec.MeanRate,topic=b.c": 0.5,
        "BytesPerSec.Count": 60,
        "BytesPerSec.MeanRate": 15.0,
        "BytesPerSec.Count,topic=a": 60,
        "BytesPerSec.MeanRate,topic=a": 15.0,
        "KafkaCommitsPerSec.Count": 5,
        "KafkaCommitsPerSec.MeanRate": 1.25,
        "ZooKeeperCommitsPerSec.Count": 1,
        "ZooKeeperCommitsPerSec.MeanRate": 0.25,
        "RebalanceRateAndTime.Count": 2,
        "RebalanceRateAndTime.MeanRate": 0.5,
        "RebalanceRateAndTime.Mean": 15.0,
        "OwnedPartitionsCount": 3,
        "OwnedPartitionsCount,topic=a": 2,
        "OwnedPartitionsCount,topic=b.c": 1,
        "MaxLag": 7,
        "ConsumerLag,topic=a,partition=0": 3,
        "ConsumerLag,topic=b.c,partition=0": 7,
    }


def test_a_connector_that_has_done_nothing() -> None:
    assert set(named(Readings(0.0, {}, {}, [], {}, 0, 0, 0, 0)).values()) == {0}


@pytest.mark.parametrize(("storage", "in_kafka", "in_zookeeper"), [("zookeeper", 0, 1), ("kafka", 1, 1)])
def test_what_a_connector_counts(over_zookeeper: MemberCluster, storage: str, in_kafka: int, in_zookeeper: int) -> None:
    topic, other = over_zookeeper.new_topic(1), over_zookeeper.new_topic(2)
    over_zookeeper.write(topic, 1, 10, 20)
    properties = {
        "zookeeper.connect": over_zookeeper.zookeeper,
        "group.id": f"group-{uuid.uuid4().hex[:8]}",
        "auto.offset.reset": "smallest",
        "auto.commit.enable": "false",
        "offsets.storage": storage,
        "consumer.timeout.ms": "60000",
    }
    with ConsumerConnector(properties) as connector:
        assert connector.metrics()["OwnedPartitionsCount"] == 0
        streams = connector.create_message_streams({topic: 1, other: 1})
        for _ in range(5):
            next(streams[topic][0])
        found = connector.metrics()
        assert found["MessagesPerSec.Count"] == found[f"MessagesPerSec.Count,topic={topic}"] == 5
        assert found[f"BytesPerSec.Count,topic={topic}"] == 40
        assert found[f"ConsumerLag,topic={topic},partition=0"] == found["MaxLag"] == 15
        assert found["OwnedPartitionsCount"] == 3
        assert found[f"OwnedPartitionsCount,topic={other}"] == 2
        assert found["RebalanceRateAndTime.Count"] == 1
        assert connector.commit_offsets()
        committed = connector.metrics()
        # The partitions of the other topic have an offset as soon as they were looked up.
        wait_until(
            lambda: f"ConsumerLag,topic={other},partition=1" in connector.metrics(), "all partitions are fetched"
        )
        assert (committed["KafkaCommitsPerSec.Count"] >= 1) == bool(in_kafka)
        assert (committed["ZooKeeperCommitsPerSec.Count"] >= 1) == bool(in_zookeeper)
        assert next(streams[topic][0]).value == b"15"
        assert connector.metrics()[f"ConsumerLag,topic={topic},partition=0"] == 14
