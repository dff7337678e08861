"""A group moves its offsets from ZooKeeper to Kafka and back while it runs, as docs/how-to says."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

import pytest

from kafkalog.client.admin.groups.offsets import GroupOffsets
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.connector import ConsumerConnector
from kafkalog.client.types import TopicPartition
from tests.kafkalog.client.connector.reading import Reading
from tests.support.member import MemberCluster
from tests.support.waiting import wait_until

PARTITIONS = 4
ROUND = 20
IN_ZOOKEEPER = {"offsets.storage": "zookeeper"}
IN_BOTH = {"offsets.storage": "kafka", "dual.commit.enabled": "true"}
IN_KAFKA = {"offsets.storage": "kafka", "dual.commit.enabled": "false"}


class Group:
    """Two members that are restarted one after another, and what they read.

    Attributes:
        values: what was read of the topic.
    """

    def __init__(self, cluster: MemberCluster, stack: ExitStack) -> None:
        self.name = f"group-{uuid.uuid4().hex[:8]}"
        self.topic = cluster.new_topic(PARTITIONS)
        self.values: list[int] = []
        self._cluster = cluster
        self._stack = stack
        self._members: list[ConsumerConnector] = []
        self._written = 0

    def restart(self, properties: Mapping[str, str]) -> None:
        """Restart both members with these properties, and write records between the two restarts."""
        for number in range(2):
            if len(self._members) > number:
                self._members[number].shutdown()
            self._write()
            member = self._join(properties)
            self._members[number : number + 1] = [member]
            self._write()
            self.wait()

    def _join(self, properties: Mapping[str, str]) -> ConsumerConnector:
        common = {
            "zookeeper.connect": self._cluster.zookeeper,
            "group.id": self.name,
            "auto.offset.reset": "smallest",
            "rebalance.backoff.ms": "200",
            "rebalance.max.retries": "20",
        }
        member = self._stack.enter_context(ConsumerConnector({**common, **properties}))
        Reading(*member.create_message_streams({self.topic: 1})[self.topic], values=self.values)
        return member

    def _write(self) -> None:
        self._cluster.write(self.topic, PARTITIONS, self._written, ROUND)
        self._written += ROUND

    def wait(self) -> None:
        """Wait until everything was read."""
        wait_until(lambda: set(self.values) == set(range(self._written)), "everything is read")

    def end(self) -> dict[int, int]:
        """Stop the members; return the offset that each partition must have."""
        for member in self._members:
            member.shutdown()
        self._members.clear()
        return dict.fromkeys(range(PARTITIONS), self._written // PARTITIONS)

    def in_kafka(self) -> dict[int, int]:
        with Cluster(ClientConfig.from_dict({"bootstrap.servers": self._cluster.bootstrap})) as cluster:
            found = GroupOffsets(cluster, self.name).committed(
                [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
            )
        return {tp.partition: offset for tp, offset in found.items()}

    def in_zookeeper(self) -> dict[int, int]:
        return self._cluster.offsets(self.name, self.topic)


@pytest.fixture
def group(over_zookeeper: MemberCluster) -> Iterator[Group]:
    with ExitStack() as stack:
        yield Group(over_zookeeper, stack)


def test_offsets_move_to_kafka_and_back_and_nothing_is_read_twice_or_never(group: Group) -> None:
    group.restart(IN_ZOOKEEPER)
    group.restart(IN_BOTH)
    ends = group.end()
    assert group.in_kafka() == group.in_zookeeper() == ends
    group.restart(IN_KAFKA)
    before, ends = group.in_zookeeper(), group.end()
    assert group.in_kafka() == ends
    # Only members that still committed to both have written there.
    assert before == group.in_zookeeper() != ends
    group.restart(IN_BOTH)
    group.restart(IN_ZOOKEEPER)
    ends = group.end()
    assert group.in_zookeeper() == ends
    assert sorted(group.values) == list(range(sum(ends.values())))


def test_the_larger_offset_counts_while_both_are_used(over_zookeeper: MemberCluster, group: Group) -> None:
    group.restart(IN_BOTH)
    ends = group.end()
    path = f"/consumers/{group.name}/offsets/{group.topic}/0"
    over_zookeeper.nodes.set(path, b"0")
    read = len(group.values)
    group.restart(IN_BOTH)
    assert len(group.values) == read + 4 * ROUND
    assert group.end() == {number: offset + 4 * ROUND // PARTITIONS for number, offset in ends.items()}
