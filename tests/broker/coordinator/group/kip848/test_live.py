"""Tests of librdkafka's consumers with `group.protocol=consumer`, against a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupType, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.migration.policy": "bidirectional",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
}


@pytest.fixture(scope="module")
def cluster(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    with KafkalogBroker(tmp_path_factory.mktemp("consumer-groups"), SETTINGS) as running:
        yield running


class Group:
    """A group and a topic of its own; consumers that are closed at the end."""

    def __init__(self, cluster: KafkalogBroker, stack: ExitStack, partitions: int = 4) -> None:
        self.cluster = cluster
        self._stack = stack
        self.name = f"group-{uuid4()}"
        self.topic = f"topic-{uuid4()}"
        self.admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        self.create(self.topic, partitions)

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(60)

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.cluster.bootstrap})
        for number in range(count):
            producer.produce(self.topic, str(number))
        assert producer.flush(60) == 0

    def consumer(self, *topics: str, protocol: str = "consumer", **settings: Any) -> Consumer:
        classic = {
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 10_000,
            "heartbeat.interval.ms": 200,
        }
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.bootstrap,
                "group.id": self.name,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                **(classic if protocol == "classic" else {}),
                **{key.replace("_", "."): value for key, value in settings.items()},
            }
        )
        self._stack.callback(consumer.close)
        consumer.subscribe(list(topics or [self.topic]))
        return consumer

    def settle(self, consumers: Sequence[Consumer], sizes: Sequence[int]) -> None:
        """Poll until the consumers have so many partitions, in any order, and no two the same."""

        def settled() -> bool:
            for consumer in consumers:
                message = consumer.poll(0.02)
                error = None if message is None else message.error()
                assert error is None or error.retriable(), error
            owned = [(entry.topic, entry.partition) for each in consumers for entry in each.assignment()]
            return sorted(len(each.assignment()) for each in consumers) == sorted(sizes) and len(set(owned)) == len(
                owned
            )

        wait_until(settled, f"assignments of {sizes} partitions")

    def described(self) -> Any:
        return self.admin.describe_consumer_groups([self.name])[self.name].result(60)

    def listed(self) -> Any:
        (found,) = [each for each in self.admin.list_consumer_groups().result(60).valid if each.group_id == self.name]
        return found


@contextmanager
def _group(cluster: KafkalogBroker, partitions: int = 4) -> Iterator[Group]:
    with ExitStack() as stack:
        yield Group(cluster, stack, partitions)


@pytest.fixture
def group(processes: None, cluster: KafkalogBroker) -> Iterator[Group]:
    with _group(cluster) as made:
        yield made


def test_members_come_and_go_and_offsets_stay(group: Group) -> None:
    group.produce(40)
    first = group.consumer()
    seen = 0

    def all_read() -> bool:
        nonlocal seen
        message = first.poll(0.1)
        if message is not None and message.error() is None:
            seen += 1
        return seen == 40

    wait_until(all_read, "40 records")
    first.commit(asynchronous=False)
    second = group.consumer(client_id="second")
    group.settle([first, second], [2, 2])
    described = group.described()
    assert described.state is ConsumerGroupState.STABLE
    assert {member.client_id for member in described.members} == {"rdkafka", "second"}
    assert [len(member.assignment.topic_partitions) for member in described.members] == [2, 2]
    assert {member.host for member in described.members} == {"/127.0.0.1"}
    assert (group.listed().type, group.listed().state) == (ConsumerGroupType.CONSUMER, ConsumerGroupState.STABLE)
    with pytest.raises(KafkaException, match=r"NON_EMPTY_GROUP|not empty"):
        group.admin.delete_consumer_groups([group.name])[group.name].result(60)
    first.close()
    group.settle([second], [4])
    committed = second.committed(second.assignment(), timeout=60)
    assert sum(entry.offset for entry in committed if entry.offset >= 0) == 40
    second.close()
    assert group.listed().state is ConsumerGroupState.EMPTY
    group.admin.delete_consumer_groups([group.name])[group.name].result(60)


def test_a_stale_member_may_not_commit(group: Group) -> None:
    first = group.consumer()
    group.settle([first], [4])
    admin_commit = Consumer({"bootstrap.servers": group.cluster.bootstrap, "group.id": group.name})
    entries = first.position(first.assignment())
    for entry in entries:
        entry.offset = 1
    with pytest.raises(KafkaException, match=r"UNKNOWN_MEMBER|Unknown member|unknown member"):
        admin_commit.commit(offsets=entries, asynchronous=False)
    admin_commit.close()


def test_a_regular_expression_and_a_topic_that_gets_more_partitions(group: Group) -> None:
    consumer = group.consumer(f"^{group.topic}.*")
    group.settle([consumer], [4])
    group.admin.create_partitions([NewPartitions(group.topic, 6)])[group.topic].result(60)
    group.settle([consumer], [6])


@pytest.mark.exhaustive
def test_a_topic_that_a_regular_expression_matches_is_made(group: Group) -> None:
    consumer = group.consumer(f"^{group.topic}.*")
    group.settle([consumer], [4])
    # Expressions are matched every ten seconds at most.
    group.create(f"{group.topic}-b", 1)
    group.settle([consumer], [5])


def test_a_static_member_is_back_before_anybody_notices(group: Group) -> None:
    first = group.consumer(group_instance_id="one")
    second = group.consumer(group_instance_id="two")
    group.settle([first, second], [2, 2])
    before = sorted((entry.topic, entry.partition) for entry in second.assignment())
    second.close()
    back = group.consumer(group_instance_id="two")
    group.settle([first, back], [2, 2])
    assert sorted((entry.topic, entry.partition) for entry in back.assignment()) == before


def test_a_group_changes_its_protocol_and_back(group: Group) -> None:
    classic = group.consumer(protocol="classic")
    group.settle([classic], [4])
    kip848 = group.consumer()
    group.settle([classic, kip848], [2, 2])
    assert group.listed().type is ConsumerGroupType.CONSUMER
    another = group.consumer(protocol="classic")
    group.settle([classic, kip848, another], [1, 1, 2])
    kip848.close()
    group.settle([classic, another], [2, 2])
    assert group.listed().type is ConsumerGroupType.CLASSIC
    classic.close()
    another.close()
    alone = group.consumer()
    group.settle([alone], [4])
    assert group.listed().type is ConsumerGroupType.CONSUMER


def test_the_broker_is_killed(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    cluster = start_broker(SETTINGS)
    with _group(cluster) as group:
        consumers = [group.consumer(), group.consumer()]
        group.settle(consumers, [2, 2])
        cluster.kill()
        cluster.start()
        group.settle(consumers, [2, 2])
        # Members that were never heard of again give their place to others.
        third = group.consumer()
        group.settle([*consumers, third], [1, 1, 2])
        assert {member.member_id for member in group.described().members} == {
            each.memberid() for each in [*consumers, third]
        }
