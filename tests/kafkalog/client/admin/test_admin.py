"""Tests of the admin client against a real broker."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable

import pytest

from kafkalog.client.admin import (
    Admin,
    ConfigChange,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
    NewTopic,
)
from kafkalog.client.cluster import Cluster
from kafkalog.client.offsets import EARLIEST, list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    KafkaError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)
from tests.support.wire import batch, produce


@pytest.fixture
def name() -> str:
    return f"admin-{uuid.uuid4().hex[:12]}"


def test_topics_come_and_go(admin: Admin, name: str) -> None:
    other = f"{name}-other"
    admin.create_topics([NewTopic(name, 3, 1, {"retention.ms": "12345"}), NewTopic(other)])
    assert {name, other} <= set(admin.list_topics())
    described = admin.describe_topics([name, other])
    assert list(described[name].partitions) == [0, 1, 2]
    assert len(described[other].partitions) >= 1
    assert described[name].partitions[0].leader in admin.describe_cluster().brokers
    admin.delete_topics([name, other])
    assert not {name, other} & set(admin.list_topics())
    with pytest.raises(UnknownTopicOrPartitionError, match=name):
        admin.describe_topics([name])


def test_all_topics_are_described(admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name)])
    assert name in admin.describe_topics()


def test_replicas_can_be_assigned(admin: Admin, name: str) -> None:
    (node_id,) = admin.describe_cluster().brokers
    admin.create_topics([NewTopic(name, assignments={0: [node_id], 1: [node_id]})])
    partitions = admin.describe_topics([name])[name].partitions
    assert [partition.replicas for partition in partitions.values()] == [(node_id,), (node_id,)]


def test_validating_changes_nothing(admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name)], validate_only=True)
    assert name not in admin.list_topics()
    admin.create_topics([NewTopic(name, 1)])
    admin.create_partitions({name: 4}, validate_only=True)
    topic = ConfigResource.topic(name)
    admin.incremental_alter_configs({topic: [ConfigChange("retention.ms", "1")]}, validate_only=True)
    assert len(admin.describe_topics([name])[name].partitions) == 1
    assert admin.describe_configs([topic])[topic]["retention.ms"].is_default


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (NewTopic("not/a/name"), InvalidTopicError),
        (NewTopic("partitions", 0), InvalidPartitionsError),
        (NewTopic("replicas", 1, 100), InvalidReplicationFactorError),
        (NewTopic("configs", configs={"retention.ms": "for ever"}), InvalidConfigError),
    ],
)
def test_topics_that_cannot_be(admin: Admin, topic: NewTopic, error: type[KafkaError]) -> None:
    with pytest.raises(error, match=f"topic {topic.name}"):
        admin.create_topics([topic])


def test_the_first_failure_is_raised_and_the_rest_is_done(admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name)])
    with pytest.raises(TopicAlreadyExistsError, match=name):
        admin.create_topics([NewTopic(f"{name}-b"), NewTopic(name), NewTopic(f"{name}-c")])
    assert {f"{name}-b", f"{name}-c"} <= set(admin.list_topics())
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        admin.delete_topics(["nowhere", name])
    assert name not in admin.list_topics()


def test_nothing_to_do(admin: Admin) -> None:
    admin.create_topics([])
    admin.delete_topics([])
    assert admin.delete_records({}) == {}
    assert admin.describe_configs([]) == {}


def test_partitions_are_added(admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name, 2)])
    admin.create_partitions({name: 5})
    assert len(admin.describe_topics([name])[name].partitions) == 5
    with pytest.raises(InvalidPartitionsError, match=name):
        admin.create_partitions({name: 3})
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        admin.create_partitions({"nowhere": 3})


def test_new_partitions_are_seen_at_once(admin: Admin, cluster: Cluster, name: str) -> None:
    admin.create_topics([NewTopic(name, 1)])
    assert admin.cluster.partitions(name) == [0]
    admin.create_partitions({name: 3})
    assert admin.cluster.partitions(name) == [0, 1, 2]


def test_configurations_of_a_topic(admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name, configs={"retention.ms": "5000"})])
    topic = ConfigResource.topic(name)

    def entry(key: str) -> tuple[str | None, ConfigSource]:
        found = admin.describe_configs([topic], [key])[topic]
        assert list(found) == [key]
        return found[key].value, found[key].source

    assert entry("retention.ms") == ("5000", ConfigSource.TOPIC)
    default = entry("segment.bytes")
    assert default[1] is ConfigSource.DEFAULT
    admin.incremental_alter_configs(
        {
            topic: [
                ConfigChange("retention.ms", operation=ConfigOperation.DELETE),
                ConfigChange("segment.bytes", "2000000"),
                ConfigChange("cleanup.policy", "compact", ConfigOperation.APPEND),
            ]
        }
    )
    assert entry("retention.ms") == ("604800000", ConfigSource.DEFAULT)
    assert entry("segment.bytes") == ("2000000", ConfigSource.TOPIC)
    assert entry("cleanup.policy") == ("delete,compact", ConfigSource.TOPIC)
    admin.incremental_alter_configs({topic: [ConfigChange("cleanup.policy", "compact", ConfigOperation.SUBTRACT)]})
    assert entry("cleanup.policy")[0] == "delete"
    admin.alter_configs({topic: {"max.message.bytes": "99"}})
    assert entry("segment.bytes") == default
    assert entry("max.message.bytes") == ("99", ConfigSource.TOPIC)


def test_configurations_that_cannot_be(admin: Admin, name: str) -> None:
    admin.create_topics([NewTopic(name)])
    topic = ConfigResource.topic(name)
    with pytest.raises(InvalidConfigError, match=name):
        admin.incremental_alter_configs({topic: [ConfigChange("retention.ms", "for ever")]})
    with pytest.raises(InvalidConfigError, match=name):
        admin.alter_configs({topic: {"no.such.thing": "1"}})
    nowhere = ConfigResource.topic("nowhere")
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        admin.describe_configs([nowhere])


def test_configurations_of_a_broker(admin: Admin) -> None:
    (node_id,) = admin.describe_cluster().brokers
    broker = ConfigResource.broker(node_id)
    found = admin.describe_configs([broker])[broker]
    assert found["log.dirs"].value
    assert int(found["num.partitions"].value or "") >= 1


def test_records_are_deleted(
    admin: Admin, cluster: Cluster, broker_address: str, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(2)
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    host, _, port = broker_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as sock:
        for partition in (0, 1):
            produce(sock, topic, batch([b"a"] * 10), partition=partition)
    assert admin.delete_records({first: 4, second: -1}) == {first: 4, second: 10}
    found = list_offsets(cluster, {first: EARLIEST, second: EARLIEST})
    assert [each.offset for each in found.values()] == [4, 10]
    with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0"):
        admin.delete_records({first: 11})
    with pytest.raises(UnknownTopicOrPartitionError, match="nowhere"):
        admin.delete_records({TopicPartition("nowhere", 0): 1})
