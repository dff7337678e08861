"""Tests of administration over the wire: create, refuse, persist and describe topics, partitions and configurations."""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kafkalog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.describe_cluster import DescribeClusterRequest
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from kafkalog.protocol.messages.describe_topic_partitions import Cursor, DescribeTopicPartitionsRequest, TopicRequest
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, exchange, fetch, produce

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


def new_name() -> str:
    return f"admin-{uuid.uuid4().hex}"


def create(sock: socket.socket, *, version: int = 7, validate_only: bool = False, **fields: Any) -> Any:
    topic = CreatableTopic(**{"name": new_name(), "num_partitions": 1, "replication_factor": 1, **fields})
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000, validate_only=validate_only)
    return exchange(sock, request, version).topics[0]


def metadata(sock: socket.socket, *names: str, version: int = 12, auto: bool = False) -> Any:
    topics = [MetadataRequestTopic(name=name) for name in names]
    return exchange(sock, MetadataRequest(topics=topics, allow_auto_topic_creation=auto), version)


def describe(sock: socket.socket, kind: int, name: str, version: int = 4) -> dict[str, Any]:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)],
        include_synonyms=version >= 1,
    )
    result = exchange(sock, request, version).results[0]
    assert result.error_code == 0, result.error_message
    return {config.name: config for config in result.configs}


def alter(sock: socket.socket, kind: int, name: str, *changes: tuple[str, int, str | None]) -> Any:
    configs = [AlterableConfig(name=key, config_operation=op, value=value) for key, op, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    return exchange(sock, IncrementalAlterConfigsRequest(resources=[resource]), 1).responses[0]


@pytest.mark.parametrize("version", range(8))
def test_every_version_creates(wire: socket.socket, version: int) -> None:
    name = new_name()
    fields: dict[str, Any] = {"name": name, "num_partitions": 3}
    assert create(wire, version=version, **fields).error_code == 0
    assert len(metadata(wire, name).topics[0].partitions) == 3


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 2}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"configs": [CreatableTopicConfig(name="no.such", value="1")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [CreatableTopicConfig(name="retention.ms", value="soon")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [CreatableTopicConfig(name="retention.ms", value=None)]}, ErrorCode.INVALID_CONFIG),
        (
            {"assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[0])]},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {
                "num_partitions": -1,
                "replication_factor": -1,
                "assignments": [CreatableReplicaAssignment(partition_index=0, broker_ids=[99])],
            },
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ),
    ],
)
def test_refused_topics(wire: socket.socket, fields: dict[str, Any], code: ErrorCode) -> None:
    result = create(wire, **fields)
    assert result.error_code == code
    assert result.error_message
    assert metadata(wire, result.name).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_topic_exists_once(wire: socket.socket, topic: str) -> None:
    refused = create(wire, name=topic)
    assert refused.error_code == ErrorCode.TOPIC_ALREADY_EXISTS
    assert refused.error_message == f"Topic '{topic}' already exists."
    dotted = new_name().replace("-", ".")
    assert create(wire, name=dotted).error_code == 0
    assert create(wire, name=dotted.replace(".", "_")).error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    twice = CreateTopicsRequest(topics=[CreatableTopic(name="twice", num_partitions=1, replication_factor=1)] * 2)
    assert [t.error_code for t in exchange(wire, twice, 7).topics] == [ErrorCode.INVALID_REQUEST]


def test_validation_makes_nothing(wire: socket.socket) -> None:
    result = create(wire, validate_only=True, num_partitions=4)
    assert (result.error_code, result.num_partitions) == (0, 4)
    assert metadata(wire, result.name).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(13))
def test_every_metadata_version(wire: socket.socket, topic: str, version: int) -> None:
    found = metadata(wire, topic, version=version, auto=version < 4).topics[0]
    assert (found.error_code, found.name) == (0, topic)
    assert [(p.partition_index, p.leader_id, p.isr_nodes) for p in found.partitions] == [
        (0, 0, [0]),
        (1, 0, [0]),
    ]


def test_partitions_are_described_in_pages(wire: socket.socket) -> None:
    name = create(wire, num_partitions=5).name
    seen, cursor = [], None
    for count in (2, 2, 1):
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name)], response_partition_limit=2, cursor=cursor
        )
        response = exchange(wire, request, 0)
        assert [topic.error_code for topic in response.topics] == [0]
        found = response.topics[0].partitions
        assert len(found) == count
        # The Java client takes no null for these.
        assert [(p.eligible_leader_replicas, p.last_known_elr) for p in found] == [([], [])] * count
        seen += [(p.partition_index, p.leader_id, p.isr_nodes) for p in found]
        cursor = response.next_cursor
    assert seen == [(index, 0, [0]) for index in range(5)]
    assert cursor is None


@pytest.mark.parametrize("cursor", [("{name}", -1), ("another", 0)])
def test_a_page_begins_at_a_partition_of_a_topic_that_is_asked_for(
    wire: socket.socket, cursor: tuple[str, int]
) -> None:
    """As in Kafka's `DescribeTopicPartitionsRequestHandler`."""
    name = create(wire, num_partitions=2).name
    begin = Cursor(topic_name=cursor[0].format(name=name), partition_index=cursor[1])
    response = exchange(wire, DescribeTopicPartitionsRequest(topics=[TopicRequest(name=name)], cursor=begin), 0)
    assert [(topic.name, topic.error_code, topic.partitions) for topic in response.topics] == [
        (name, ErrorCode.INVALID_REQUEST, [])
    ]
    assert response.next_cursor is None


def test_metadata_by_id_and_of_all(wire: socket.socket, topic: str) -> None:
    topic_id = metadata(wire, topic).topics[0].topic_id
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic_id)])
    assert exchange(wire, request, 12).topics[0].name == topic
    request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=uuid.uuid4())])
    assert exchange(wire, request, 12).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    assert topic in {t.name for t in exchange(wire, MetadataRequest(topics=None), 12).topics}
    assert topic in {t.name for t in exchange(wire, MetadataRequest(topics=[]), 0).topics}
    assert exchange(wire, MetadataRequest(topics=[]), 12).topics == []


def test_topics_are_made_when_asked_for_if_allowed(wire: socket.socket) -> None:
    name = new_name()
    assert metadata(wire, name, auto=False).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    made = metadata(wire, name, auto=True).topics[0]
    assert (made.error_code, len(made.partitions)) == (0, 1)
    assert metadata(wire, "not/legal", auto=True).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_automatic_creation_can_be_off(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"auto.create.topics.enable": "false", "num.partitions": "7"})
    with broker.connect() as sock:
        assert metadata(sock, "t", auto=True).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert create(sock, name="t", num_partitions=-1, replication_factor=-1).num_partitions == 7


def test_deleting(wire: socket.socket, topic: str, broker: KafkalogBroker) -> None:
    produce(wire, topic, batch([b"x"]))
    topic_id = metadata(wire, topic).topics[0].topic_id
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(name=topic), DeleteTopicState(name=None, topic_id=uuid.uuid4())],
        timeout_ms=10_000,
    )
    codes = sorted(result.error_code for result in exchange(wire, request, 6).responses)
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_ID]
    assert metadata(wire, topic).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(wire, topic, batch([b"x"])).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000)
    assert exchange(wire, request, 5).responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    create_topic(wire, topic)
    again = metadata(wire, topic).topics[0]
    assert again.topic_id != topic_id
    assert produce(wire, topic, batch([b"new"])).base_offset == 0
    # A fetch by the old id must not read the new topic.
    old = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0, fetch_offset=0)])
    response = exchange(wire, FetchRequest(topics=[old], session_epoch=-1, max_bytes=1000), 13)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def grow(sock: socket.socket, name: str, count: int, **fields: Any) -> int:
    topic = CreatePartitionsTopic(name=name, count=count, assignments=None)
    code: int = exchange(sock, CreatePartitionsRequest(topics=[topic], **fields), 3).results[0].error_code
    return code


def test_growing(wire: socket.socket, topic: str) -> None:
    assert grow(wire, topic, 5, validate_only=True) == 0
    assert len(metadata(wire, topic).topics[0].partitions) == 2
    assert grow(wire, topic, 5) == 0
    assert len(metadata(wire, topic).topics[0].partitions) == 5
    assert produce(wire, topic, batch([b"x"]), 4).error_code == 0
    assert grow(wire, topic, 5) == ErrorCode.INVALID_PARTITIONS
    assert grow(wire, topic, 4) == ErrorCode.INVALID_PARTITIONS
    assert grow(wire, new_name(), 4) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(5))
def test_topic_configs_are_described(wire: socket.socket, version: int) -> None:
    name = new_name()
    create_topic(wire, name, retention_ms="1234", cleanup_policy="compact,delete")
    found = describe(wire, TOPIC, name, version)
    assert found["retention.ms"].value == "1234"
    assert found["cleanup.policy"].value == "compact,delete"
    assert found["segment.bytes"].value == str(1 << 30)
    if version >= 1:
        assert (found["retention.ms"].config_source, found["segment.bytes"].config_source) == (1, 5)
        # log.retention.ms has no default of its own.
        assert [s.name for s in found["retention.ms"].synonyms] == ["retention.ms"]
        assert found["segment.ms"].synonyms == []
        assert [(s.name, s.value, s.source) for s in found["segment.bytes"].synonyms] == [
            ("log.segment.bytes", str(1 << 30), 5)
        ]


def test_configs_are_described_in_the_order_asked(wire: socket.socket, topic: str) -> None:
    keys = ["segment.ms", "cleanup.policy", "no.such", "segment.ms", "retention.ms"]
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=keys)]
    )
    result = exchange(wire, request, 4).results[0]
    assert [config.name for config in result.configs] == ["segment.ms", "cleanup.policy", "retention.ms"]


def test_no_names_of_configs_mean_all(wire: socket.socket, topic: str) -> None:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=[])]
    )
    names = {config.name for config in exchange(wire, request, 4).results[0].configs}
    assert names == set(describe(wire, TOPIC, topic))


def test_topic_configs_are_altered(wire: socket.socket, topic: str) -> None:
    assert alter(wire, TOPIC, topic, ("retention.ms", SET, "55"), ("cleanup.policy", APPEND, "compact")).error_code == 0
    found = describe(wire, TOPIC, topic)
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("55", "delete,compact")
    changes = (("retention.ms", DELETE, None), ("cleanup.policy", SUBTRACT, "delete"))
    assert alter(wire, TOPIC, topic, *changes).error_code == 0
    found = describe(wire, TOPIC, topic)
    assert (found["retention.ms"].config_source, found["cleanup.policy"].value) == (5, "compact")
    # Neither deleted nor compacted: an empty list is a policy, as in Kafka.
    assert alter(wire, TOPIC, topic, ("cleanup.policy", SUBTRACT, "compact")).error_code == 0
    assert describe(wire, TOPIC, topic)["cleanup.policy"].value == ""
    assert alter(wire, TOPIC, topic, ("max.message.bytes", SET, "100")).error_code == 0
    assert produce(wire, topic, batch([b"x" * 200])).error_code == ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (("no.such", SET, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, "x"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", APPEND, "1"), ErrorCode.INVALID_CONFIG),
        (("retention.ms", SET, None), ErrorCode.INVALID_REQUEST),
        (("retention.ms", 9, "1"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_refused_alterations(wire: socket.socket, topic: str, change: tuple[str, int, str | None], code: int) -> None:
    assert alter(wire, TOPIC, topic, change).error_code == code


def test_a_configuration_that_is_not_known_may_be_deleted(wire: socket.socket, topic: str) -> None:
    """Tools delete every name that they know, and a resource is altered as a whole or not at all."""
    assert alter(wire, TOPIC, topic, ("no.such", DELETE, None), ("retention.ms", SET, "55")).error_code == 0
    found = describe(wire, TOPIC, topic)
    assert (found["retention.ms"].value, "no.such" in found) == ("55", False)
    assert alter(wire, BROKER, "", ("no.such", DELETE, None)).error_code == 0
    assert alter(wire, TOPIC, topic, ("no.such", APPEND, "1")).error_code == ErrorCode.INVALID_CONFIG


def test_remote_storage_cannot_be_switched_on(wire: socket.socket, topic: str) -> None:
    result = alter(wire, TOPIC, topic, ("remote.storage.enable", SET, "true"))
    assert result.error_code == ErrorCode.INVALID_CONFIG
    assert result.error_message.startswith("Tiered Storage functionality is disabled in the broker.")
    assert alter(wire, TOPIC, topic, ("remote.storage.enable", SET, "false")).error_code == 0


def test_the_level_of_the_topics_codec_is_honoured(wire: socket.socket, topic: str) -> None:
    sizes = []
    data = batch([b"%d" % (number * 7919) for number in range(2000)])
    for level in ("1", "9"):
        name = f"{topic}-{level}"
        create_topic(wire, name, 1, compression_type="gzip", compression_gzip_level=level)
        assert produce(wire, name, data).error_code == 0
        sizes.append(len(fetch(wire, name, {0: 0})[0].records))
    assert sizes[1] < sizes[0] < len(data)


def test_unknown_broker_configs_are_kept_without_effect(start_broker: Callable[..., KafkalogBroker]) -> None:
    name, value = 'my.plugin.key "\\u00e9\\n', "a secret\n= or not"
    broker = start_broker({"from.the.file": "1"})
    with broker.connect() as sock:
        assert alter(sock, BROKER, "0", (name, SET, value), ("message.max.bytes", SET, "150")).error_code == 0
        assert alter(sock, BROKER, "", ("for.all", SET, "1")).error_code == 0
        assert alter(sock, BROKER, "0", ("process.roles", SET, "x")).error_code == ErrorCode.INVALID_REQUEST
    broker.kill()
    broker.start()
    with broker.connect() as sock:
        found = describe(sock, BROKER, "0")
        assert found["message.max.bytes"].value == "150"
        for key, source in ((name, 2), ("for.all", 3), ("from.the.file", 4)):
            config = found[key]
            assert (config.value, config.is_sensitive, config.read_only) == (None, True, True)
            assert (config.config_source, config.config_type) == (source, 0)
            assert [(synonym.name, synonym.value, synonym.source) for synonym in config.synonyms] == [
                (key, None, source)
            ]
        assert list(describe(sock, BROKER, "")) == ["for.all"]
        assert alter(sock, BROKER, "0", (name, DELETE, None)).error_code == 0
        assert name not in describe(sock, BROKER, "0")


def test_broker_configs_change_while_it_runs(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"log.retention.hours": "3"})
    with broker.connect() as sock:
        create_topic(sock, "t")
        assert describe(sock, TOPIC, "t")["retention.ms"].value == str(3 * 3600 * 1000)
        found = describe(sock, TOPIC, "t")["retention.ms"]
        assert found.config_source == 4
        # Under its own name, a key has its own unit.
        hours = [(synonym.name, synonym.value, synonym.source) for synonym in found.synonyms]
        assert hours == [("log.retention.hours", "3", 4), ("log.retention.hours", "168", 5)]
        assert alter(sock, BROKER, "", ("log.retention.ms", SET, "777")).error_code == 0
        assert describe(sock, TOPIC, "t")["retention.ms"].value == "777"
        assert alter(sock, BROKER, "0", ("message.max.bytes", SET, "150")).error_code == 0
        assert produce(sock, "t", batch([b"x" * 200])).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert alter(sock, BROKER, "0", ("log.dirs", SET, "/x")).error_code == ErrorCode.INVALID_REQUEST
        assert alter(sock, BROKER, "5", ("message.max.bytes", SET, "1")).error_code == ErrorCode.INVALID_REQUEST
    broker.kill()
    broker.start()
    with broker.connect() as sock:
        found = describe(sock, BROKER, "0")["message.max.bytes"]
        assert (found.value, found.config_source) == ("150", 2)
        assert describe(sock, TOPIC, "t")["retention.ms"].value == "777"


def test_the_cluster_is_described(wire: socket.socket, broker: KafkalogBroker) -> None:
    response = exchange(wire, DescribeClusterRequest(), 1)
    assert [(b.broker_id, f"{b.host}:{b.port}") for b in response.brokers] == [(0, broker.address)]
    assert response.cluster_id == metadata(wire).cluster_id


def test_log_dirs_are_described(wire: socket.socket, topic: str, broker: KafkalogBroker) -> None:
    produce(wire, topic, batch([b"x" * 1000]))
    result = exchange(wire, DescribeLogDirsRequest(topics=None), 4).results[0]
    assert result.log_dir == str(broker.log_dir)
    sizes = {t.name: {p.partition_index: p.partition_size for p in t.partitions} for t in result.topics}
    assert sizes[topic][0] > 1000
    assert sizes[topic][1] == 0
    assert 0 < result.usable_bytes <= result.total_bytes
