"""Test coordinators, topics and configurations of clusters with brokers of Apache Kafka and ours.

Broker 1, of Apache Kafka, is the controller.
"""

from __future__ import annotations

import itertools
import socket
import uuid
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker.coordinator.state_topic import partition_of
from kafkalog.client.admin import Admin
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasEntity,
    AlterClientQuotasEntry,
    AlterClientQuotasOp,
    AlterClientQuotasRequest,
)
from kafkalog.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasComponent,
    DescribeClientQuotasRequest,
)
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.schema import Request
from peers import require
from peers.brokers import kafka
from tests.broker.member.mixed_cluster import AS_3_9, OURS, MixedCluster, mixed_cluster, mixes
from tests.support.broker_cluster import IDS
from tests.support.waiting import wait_until
from tests.support.wire import exchange

pytestmark = [pytest.mark.usefixtures("foreign_programs"), pytest.mark.timeout(600)]

ROUND = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
"""Three partitions, each led by another broker."""
TRANSACTION_PARTITIONS = 50
STATE = {"cleanup.policy": "compact", "min.insync.replicas": "1"}
TRANSACTIONAL = {"log_level": 0, "transaction.timeout.ms": "60000", "retry.backoff.ms": "50"}


@pytest.fixture(scope="module", params=mixes(AS_3_9))
def cluster(
    request: pytest.FixtureRequest, foreign_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MixedCluster]:
    require(kafka.missing(request.param.release))
    with mixed_cluster(tmp_path_factory.mktemp("mixed"), request.param) as started:
        # As many partitions as Kafka takes for granted from its start on, each with replicas everywhere.
        started.create(
            "__transaction_state", [ROUND[index % len(ROUND)] for index in range(TRANSACTION_PARTITIONS)], STATE
        )
        started.create("__consumer_offsets", [[OURS, 1, 2]], STATE)
        yield started


def names(kind: str) -> str:
    return f"{kind}-{uuid.uuid4().hex[:8]}"


def servers(cluster: MixedCluster) -> str:
    return ",".join(map(cluster.address, IDS))


def coordinated_everywhere(topic: str) -> list[str]:
    """Return transactional ids: each broker coordinates two of them, while it leads what it should."""
    found: dict[int, list[str]] = {leader: [] for leader in range(len(ROUND))}
    for number in itertools.count():
        transactional_id = f"{topic}-{number}"
        of_leader = found[partition_of(transactional_id, TRANSACTION_PARTITIONS) % len(ROUND)]
        if len(of_leader) < 2:
            of_leader.append(transactional_id)
        if all(len(each) == 2 for each in found.values()):
            return [each for of_leader in found.values() for each in of_leader]
    raise AssertionError


def transactional(cluster: MixedCluster, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": servers(cluster), "transactional.id": transactional_id, **TRANSACTIONAL})
    producer.init_transactions(60)
    return producer


def committed(cluster: MixedCluster, topic: str, count: int) -> list[str]:
    """Return the values that a reader of committed records finds, once there are so many, sorted."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers(cluster),
            "group.id": names("reader"),
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(len(ROUND))])
        values: list[str] = []
        while len(values) < count:
            message = consumer.poll(60)
            assert message is not None, f"{len(values)} of {count} records come"
            assert message.error() is None, message.error()
            values.append((message.value() or b"").decode())
        # What was aborted lies before the end of each partition: nothing else may come.
        for index in range(len(ROUND)):
            place = TopicPartition(topic, index)
            _, end = consumer.get_watermark_offsets(place, timeout=60)
            wait_until(partial(_read_to, consumer, place, end, values), f"{topic}-{index} is read to its end")
        return sorted(values)
    finally:
        consumer.close()


def _read_to(consumer: Consumer, place: TopicPartition, end: int, values: list[str]) -> bool:
    message = consumer.poll(0.05)
    if message is not None and message.error() is None:
        values.append((message.value() or b"").decode())
    return bool(consumer.position([place])[0].offset >= end)


def write_everywhere(producer: Producer, topic: str, value: str) -> list[str]:
    for index in range(len(ROUND)):
        producer.produce(topic, f"{value}-{index}", partition=index)
    assert producer.flush(60) == 0
    return [f"{value}-{index}" for index in range(len(ROUND))]


def test_transactions_reach_every_leader_from_every_coordinator(cluster: MixedCluster) -> None:
    topic = names("transactions")
    cluster.create(topic, ROUND)
    expected: list[str] = []
    for number, transactional_id in enumerate(coordinated_everywhere(topic)):
        producer = transactional(cluster, transactional_id)
        for commit in (True, False, True):
            producer.begin_transaction()
            value = f"{number}-{commit}-{len(expected)}"
            written = write_everywhere(producer, topic, value)
            if commit:
                producer.commit_transaction(60)
                expected += written
            else:
                producer.abort_transaction(60)
    assert committed(cluster, topic, len(expected)) == sorted(expected)


def test_offsets_are_committed_in_transactions(cluster: MixedCluster) -> None:
    topic = names("offsets")
    cluster.create(topic, ROUND)
    for number, group in enumerate(coordinated_everywhere(topic)):
        consumer = Consumer({"bootstrap.servers": servers(cluster), "group.id": group, "log_level": 0})
        producer = transactional(cluster, group)
        try:
            for offset, commit in ((5, True), (9, False)):
                producer.begin_transaction()
                write_everywhere(producer, topic, f"{number}-{offset}")
                place = TopicPartition(topic, 0, offset)
                producer.send_offsets_to_transaction([place], consumer.consumer_group_metadata(), 60)
                if commit:
                    producer.commit_transaction(60)
                else:
                    producer.abort_transaction(60)
            wait_until(
                lambda consumer=consumer: consumer.committed([TopicPartition(topic, 0)], 60)[0].offset == 5,  # type: ignore[misc]
                "the committed offset",
            )
        finally:
            consumer.close()


def test_a_transaction_goes_on_when_its_coordinator_is_killed(cluster: MixedCluster) -> None:
    topic = names("killed")
    cluster.create(topic, ROUND, {"min.insync.replicas": "1"})
    ids = coordinated_everywhere(topic)
    producers = {number: transactional(cluster, transactional_id) for number, transactional_id in enumerate(ids)}
    expected: list[str] = []
    for number, producer in producers.items():
        producer.begin_transaction()
        expected += write_everywhere(producer, topic, f"before-{number}")
    # Kafka's brokers list transactions from 3.0 on.
    if cluster.mix.release != kafka.KAFKA_2:
        with Admin({"bootstrap.servers": servers(cluster)}) as admin:
            listed = {each.transactional_id for each in admin.transactions.list_transactions(states=["Ongoing"])}
        assert set(ids) <= listed, "each coordinator lists its own"
    cluster.ours.kill()
    cluster.wait_alive((1, 2), (1, 2))
    for number, producer in producers.items():
        expected += write_everywhere(producer, topic, f"after-{number}")
        producer.commit_transaction(90)
    assert committed(cluster, topic, len(expected)) == sorted(expected)
    cluster.ours.start()
    cluster.wait_alive(IDS)
    for name in ("__transaction_state", "__consumer_offsets", topic):
        for index in cluster.partitions(name):
            cluster.wait_isr(name, IDS, index)
    with Admin({"bootstrap.servers": cluster.bootstrap}) as admin:
        admin.replicas.elect_leaders()
    cluster.wait_leader("__transaction_state", OURS, 2)
    for number, producer in producers.items():
        producer.begin_transaction()
        expected += write_everywhere(producer, topic, f"again-{number}")
        producer.commit_transaction(90)
    assert committed(cluster, topic, len(expected)) == sorted(expected)


def ask(cluster: MixedCluster, broker: int, request: Request, version: int) -> Any:
    host, _, port = cluster.address(broker).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        return exchange(connection, request, version)


def alter(cluster: MixedCluster, broker: int, topic: str, key: str, value: str) -> None:
    """Change a configuration of a topic by a request to this broker."""
    change = AlterableConfig(name=key, config_operation=0, value=value)
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[change])
    response = ask(cluster, broker, IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert [each.error_code for each in response.responses] == [ErrorCode.NONE]


def is_refused(cluster: MixedCluster, topic: str, index: int, size: int) -> bool:
    errors: list[Any] = []
    producer = Producer({"bootstrap.servers": servers(cluster), "log_level": 0})
    producer.produce(topic, b"x" * size, partition=index, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    return errors[0] is not None


@pytest.mark.parametrize("is_ours", [False, True], ids=["by Kafka", "by ours"])
def test_a_configuration_is_in_force_on_all_brokers(cluster: MixedCluster, is_ours: bool) -> None:
    asked = OURS if is_ours else max(cluster.theirs)
    topic = names("configured")
    cluster.create(topic, ROUND, {"max.message.bytes": "2000"})
    assert [is_refused(cluster, topic, index, 3000) for index in range(3)] == [True] * 3
    for limit, size, refused in (("4000", 3000, False), ("1000", 1500, True)):
        alter(cluster, asked, topic, "max.message.bytes", limit)
        for index in range(3):
            wait_until(
                lambda size=size, index=index, refused=refused: is_refused(cluster, topic, index, size) is refused,  # type: ignore[misc]
                f"the limit of {limit} bytes is in force for partition {index}",
            )


@pytest.mark.parametrize("is_ours", [False, True], ids=["by Kafka", "by ours"])
def test_a_topic_is_created_by_whichever_broker_is_asked_for_it(cluster: MixedCluster, is_ours: bool) -> None:
    asked = OURS if is_ours else max(cluster.theirs)
    topic = names("automatic")
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=True)
    first = ask(cluster, asked, request, 9)
    if is_ours:
        # The controller may have told of the leaders before the answer.
        assert first.topics[0].error_code in (ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NONE)
    for broker in IDS:
        wait_until(lambda broker=broker: bool(cluster.partitions(topic, broker)), f"{broker} knows the topic")  # type: ignore[misc]
    writer = cluster.writer()
    writer.send(topic, [b"one"])
    writer.flush()
    assert cluster.read(topic) == [b"one"]


def test_quotas_of_one_broker_are_those_of_the_others(cluster: MixedCluster) -> None:
    user = names("user & co")
    entity = [
        AlterClientQuotasEntity(entity_type="user", entity_name=user),
        AlterClientQuotasEntity(entity_type="client-id", entity_name=None),
    ]
    wanted = DescribeClientQuotasRequest(
        components=[DescribeClientQuotasComponent(entity_type="user", match_type=0, match=user)]
    )

    def values(broker: int) -> dict[str, float]:
        response = ask(cluster, broker, wanted, 1)
        return {value.key: value.value for entry in response.entries or [] for value in entry.values}

    expected: dict[str, float] = {}
    for broker, key, value in ((OURS, "producer_byte_rate", 5000.0), (2, "request_percentage", 12.5)):
        entry = AlterClientQuotasEntry(entity=entity, ops=[AlterClientQuotasOp(key=key, value=value, remove=False)])
        response = ask(cluster, broker, AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)
        assert [each.error_code for each in response.entries] == [ErrorCode.NONE]
        expected[key] = value
        for other in IDS:
            wait_until(lambda other=other: values(other) == expected, f"{other} knows the quotas {expected}")  # type: ignore[misc]


def test_no_producer_id_is_given_twice(cluster: MixedCluster) -> None:
    given: list[int] = []
    for broker, count in ((1, 40), (OURS, 1100), (2, 40), (OURS, 40)):
        host, _, port = cluster.address(broker).rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            while count:
                response = exchange(connection, InitProducerIdRequest(transactional_id=None), 4)
                if response.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
                    # Kafka's broker has no block at the moment.
                    continue
                assert response.error_code == ErrorCode.NONE
                given.append(response.producer_id)
                count -= 1
    assert len(set(given)) == len(given) == 1220
