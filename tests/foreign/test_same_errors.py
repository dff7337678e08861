"""Compare the errors of this broker with those of Apache Kafka 3.9, for requests that a broker refuses.

Each request is sent in every version that can carry it, and every error code of the responses is compared.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from kafkalog.protocol.codec import EncodeError
from kafkalog.protocol.errors import ErrorCode, UnsupportedVersionError
from kafkalog.protocol.messages import alter_configs, create_partitions, create_topics, incremental_alter_configs
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalog.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.end_txn import EndTxnRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.offset_delete import OffsetDeleteRequest
from kafkalog.protocol.messages.sync_group import SyncGroupRequest
from kafkalog.protocol.schema import Request, Struct
from peers.brokers import kafka
from tests.support.older_kafka import older_kafka
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, exchange, fetch_request, produce_request

TOPIC = "same-errors"
OF_TOPIC, OF_BROKER = 2, 4


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def has_coordinators(sock: socket.socket) -> bool:
    """Return whether a coordinator of each kind is there."""
    requests = [FindCoordinatorRequest(key_type=kind, coordinator_keys=["any"]) for kind in (0, 1)]
    return not any(exchange(sock, request, 4).coordinators[0].error_code for request in requests)


@pytest.fixture(scope="module")
def both(
    foreign_programs: None, broker_address: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Connections with Apache Kafka and with this broker, which both have the topic and coordinators."""
    with (
        older_kafka(kafka.KAFKA_3, tmp_path_factory.mktemp("apache")) as apache,
        connect(apache) as theirs,
        connect(broker_address) as ours,
    ):
        for sock in (theirs, ours):
            create_topic(sock, TOPIC, 1)
            wait_until(partial(has_coordinators, sock), "coordinators")
        yield theirs, ours


def codes(answer: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every error code of a response, with the fields that lead to it."""
    if isinstance(answer, Struct):
        for field in answer.fields:
            value = getattr(answer, field.name)
            if field.name.endswith("error_code"):
                yield path, ErrorCode(value).name
            elif isinstance(value, (Struct, list)):
                yield from codes(value, f"{path}.{field.name}")
    elif isinstance(answer, list):
        for each in answer:
            yield from codes(each, path)


def answers(sock: socket.socket, request: Request) -> dict[int, list[tuple[str, str]]]:
    """Return the error codes that each version has; their order is not Kafka's business."""
    found = {}
    for version in range(request.min_version, request.max_version + 1):
        try:
            found[version] = sorted(codes(exchange(sock, request, version)))
        except (EncodeError, UnsupportedVersionError):
            continue
    assert found, "no version can carry the request"
    return found


def new(name: str, partitions: int = 1, replicas: int = 1, **config: str) -> create_topics.CreateTopicsRequest:
    configs = [
        create_topics.CreatableTopicConfig(name=key.replace("_", "."), value=text) for key, text in config.items()
    ]
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, configs=configs
    )
    return create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=10_000)


def grown(name: str, count: int, *replicas: int) -> create_partitions.CreatePartitionsRequest:
    assignments = [create_partitions.CreatePartitionsAssignment(broker_ids=list(replicas))] if replicas else None
    topic = create_partitions.CreatePartitionsTopic(name=name, count=count, assignments=assignments)
    return create_partitions.CreatePartitionsRequest(topics=[topic], timeout_ms=10_000, validate_only=True)


def altered(kind: int, name: str, key: str, value: str | None, op: int = 0) -> Request:
    config = incremental_alter_configs.AlterableConfig(name=key, config_operation=op, value=value)
    resource = incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)


def replaced(kind: int, name: str, key: str, value: str | None) -> Request:
    config = alter_configs.AlterableConfig(name=key, value=value)
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)


def described(kind: int, name: str) -> Request:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=["retention.ms"])
    return DescribeConfigsRequest(resources=[resource])


def joined(group: str, session_ms: int = 10_000, member: str = "", protocol_type: str = "consumer") -> Request:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"x")] if protocol_type else []
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=session_ms,
        member_id=member,
        protocol_type=protocol_type,
        protocols=protocols,
    )


def deleted(topic: str, partition: int, offset: int) -> Request:
    wanted = DeleteRecordsPartition(partition_index=partition, offset=offset)
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[wanted])], timeout_ms=10_000)


ONE = bytes(batch([b"value"]))
TORN = ONE[:-1] + bytes([ONE[-1] ^ 1])
REFUSED: dict[str, Request] = {
    "produce to no partition": produce_request(TOPIC, {7: ONE, -1: ONE}),
    "produce to no topic": produce_request("nowhere", {0: ONE}),
    "produce with other acks": produce_request(TOPIC, {0: ONE}, acks=2),
    "produce damaged": produce_request(TOPIC, {0: TORN}),
    "produce two batches": produce_request(TOPIC, {0: ONE + ONE}),
    "produce nothing": produce_request(TOPIC, {0: b""}),
    "fetch before the start": fetch_request(TOPIC, {0: -1}),
    "fetch after the end": fetch_request(TOPIC, {0: 10**9}),
    "fetch from no partition": fetch_request(TOPIC, {7: 0}),
    "fetch from no topic": fetch_request("nowhere", {0: 0}),
    "delete after the end": deleted(TOPIC, 0, 10**9),
    "delete before the start": deleted(TOPIC, 0, -2),
    "delete from no partition": deleted(TOPIC, 7, 0),
    "create a bad name": new("a/b"),
    "create the empty name": new(""),
    "create what exists": new(TOPIC),
    "create without partitions": new("other", partitions=0),
    "create with many replicas": new("other", replicas=3),
    "create with no such key": new("other", no_such_key="1"),
    "create with a bad value": new("other", retention_ms="x"),
    "grow to fewer": grown(TOPIC, 0),
    "grow to the same": grown(TOPIC, 1),
    "grow no topic": grown("nowhere", 3),
    "grow to no broker": grown(TOPIC, 2, 9),
    "grow with one broker twice": grown(TOPIC, 2, 0, 0),
    "configs of no topic": described(OF_TOPIC, "nowhere"),
    "configs of the empty topic": described(OF_TOPIC, ""),
    "configs of an impossible topic": described(OF_TOPIC, "a/b"),
    "configs of another broker": described(OF_BROKER, "7"),
    "alter the empty topic": altered(OF_TOPIC, "", "retention.ms", "1"),
    "alter no topic": altered(OF_TOPIC, "nowhere", "retention.ms", "1"),
    "alter no key": altered(OF_TOPIC, TOPIC, "no.such.key", "1"),
    "alter to a bad value": altered(OF_TOPIC, TOPIC, "retention.ms", "x"),
    "alter to nothing": altered(OF_TOPIC, TOPIC, "retention.ms", None),
    "append to what is no list": altered(OF_TOPIC, TOPIC, "retention.ms", "1", op=2),
    "alter a broker to a bad value": altered(OF_BROKER, "0", "log.retention.ms", "x"),
    "alter a broker's own": altered(OF_BROKER, "0", "broker.id", "7"),
    "alter another broker": altered(OF_BROKER, "7", "log.retention.ms", "1"),
    "replace the empty topic": replaced(OF_TOPIC, "", "retention.ms", "1"),
    "replace a broker by a bad value": replaced(OF_BROKER, "0", "log.retention.ms", "x"),
    "replace by nothing": replaced(OF_TOPIC, TOPIC, "retention.ms", None),
    "join the empty group": joined(""),
    "join for too short": joined("refused", session_ms=1),
    "join as nobody": joined("refused", member="nobody"),
    "join without a type": joined("refused", protocol_type=""),
    "beat in no group": HeartbeatRequest(group_id="nowhere", generation_id=1, member_id="nobody"),
    "beat in the empty group": HeartbeatRequest(group_id="", generation_id=1, member_id="nobody"),
    "sync in no group": SyncGroupRequest(group_id="nowhere", generation_id=1, member_id="nobody"),
    "delete groups": DeleteGroupsRequest(groups_names=["nowhere", ""]),
    "delete offsets of no group": OffsetDeleteRequest(group_id="nowhere"),
    "find no kind": FindCoordinatorRequest(key_type=3, coordinator_keys=["any"]),
    "begin without an id": InitProducerIdRequest(transactional_id="", transaction_timeout_ms=1000),
    "begin for too long": InitProducerIdRequest(transactional_id="long", transaction_timeout_ms=10**9),
    "end nothing": EndTxnRequest(transactional_id="never-begun", producer_id=1, producer_epoch=0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_the_same_error(both: tuple[socket.socket, socket.socket], name: str) -> None:
    theirs, ours = (answers(sock, REFUSED[name]) for sock in both)
    assert ours == theirs
    assert any(code != "NONE" for found in theirs.values() for _, code in found)
