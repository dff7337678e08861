"""Groups in ZooKeeper whose members are ours and Kafka 0.8.2's."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from kafkalog.client.connector import ConsumerConnector
from peers import require
from peers.clients import old_java
from peers.clients.old_connector import VERSION, OldConnector
from peers.toolchains import java
from tests.kafkalog.client.connector.reading import Reading
from tests.support.member import MemberCluster
from tests.support.waiting import wait_until

pytestmark = pytest.mark.peer

PARTITIONS = 5


class MixedGroup:
    """A group with members of both kinds."""

    def __init__(self, cluster: MemberCluster, strategy: str, directory: Path, stack: ExitStack) -> None:
        self.name = f"group-{uuid.uuid4().hex[:8]}"
        self.topic = cluster.new_topic(PARTITIONS)
        self._cluster = cluster
        self._strategy = strategy
        self.offsets = {"offsets.storage": "zookeeper"}
        self._directory = directory
        self._stack = stack
        self._written = 0

    @property
    def properties(self) -> dict[str, str]:
        return {
            "zookeeper.connect": self._cluster.zookeeper,
            "group.id": self.name,
            "auto.offset.reset": "smallest",
            "partition.assignment.strategy": self._strategy,
            "rebalance.backoff.ms": "300",
            "rebalance.max.retries": "50",
            "zookeeper.session.timeout.ms": "4000",
            **self.offsets,
        }

    def ours(self) -> tuple[ConsumerConnector, Reading]:
        member = self._stack.enter_context(ConsumerConnector(self.properties))
        return member, Reading(*member.create_message_streams({self.topic: 1})[self.topic])

    def theirs(self) -> OldConnector:
        member = OldConnector(self.topic, self.properties, self._directory / f"{uuid.uuid4().hex}.log")
        self._stack.callback(member.kill)
        member.wait_ready()
        return member

    def write(self, count: int) -> None:
        self._cluster.write(self.topic, PARTITIONS, self._written, count)
        self._written += count

    @property
    def everything(self) -> list[int]:
        return list(range(self._written))

    def wait_owners(self, members: int) -> None:
        """Wait until all partitions are owned, by so many members."""
        wait_until(lambda: self._owners() == (PARTITIONS, members), f"{members} members own {PARTITIONS} partitions")

    def _owners(self) -> tuple[int, int]:
        owners = self._cluster.owners(self.name, self.topic)
        return len(owners), len({each.rpartition("-")[0] for each in owners.values()})


@pytest.fixture(params=["range", "roundrobin"])
def group(request: pytest.FixtureRequest, over_zookeeper: MemberCluster, tmp_path: Path) -> Iterator[MixedGroup]:
    require(old_java.missing(VERSION))
    with ExitStack() as stack:
        yield MixedGroup(over_zookeeper, request.param, tmp_path, stack)


def test_members_of_both_kinds_share_the_partitions_and_nothing_is_missed(group: MixedGroup) -> None:
    first, read = group.ours()
    group.write(20)
    read.wait(20)
    theirs = group.theirs()
    group.wait_owners(2)
    group.write(50)
    wait_until(lambda: len(read.values) + len(theirs.values) >= 70, "all is read")
    assert sorted([*read.values, *map(int, theirs.values)]) == group.everything
    assert theirs.values
    second, more = group.ours()
    group.wait_owners(3)
    group.write(50)
    wait_until(lambda: len(read.values) + len(more.values) + len(theirs.values) >= 120, "all is read")
    assert sorted([*read.values, *more.values, *map(int, theirs.values)]) == group.everything
    # They take over from us, and we from them.
    first.shutdown()
    group.wait_owners(2)
    theirs.stop()
    group.wait_owners(1)
    group.write(20)
    wait_until(lambda: len(read.values) + len(more.values) + len(theirs.values) >= 140, "all is read")
    assert sorted([*read.values, *more.values, *map(int, theirs.values)]) == group.everything
    assert len(second.assignment()) == PARTITIONS


def test_partitions_of_their_member_that_was_killed_are_taken_over(group: MixedGroup) -> None:
    theirs = group.theirs()
    member, read = group.ours()
    group.wait_owners(2)
    group.write(20)
    wait_until(lambda: len(read.values) + len(theirs.values) >= 20, "all is read")
    theirs.kill()
    wait_until(lambda: len(member.assignment()) == PARTITIONS, "ours owns all")
    group.write(20)
    # What theirs had not committed comes again.
    wait_until(lambda: set(read.values) | set(map(int, theirs.values)) == set(group.everything), "nothing is missed")


@pytest.mark.parametrize("group", ["range"], indirect=True)
@pytest.mark.parametrize("dual", ["false", "true"])
def test_offsets_that_theirs_has_committed_to_kafka_are_ours(group: MixedGroup, dual: str) -> None:
    group.offsets = {"offsets.storage": "kafka", "dual.commit.enabled": dual}
    theirs = group.theirs()
    group.write(20)
    wait_until(lambda: len(theirs.values) >= 20, "theirs has read all")
    theirs.stop()
    group.write(20)
    member, read = group.ours()
    read.wait(20)
    assert sorted(read.values) == group.everything[20:]
    member.shutdown()
    group.write(20)
    theirs = group.theirs()
    wait_until(lambda: len(theirs.values) >= 20, "theirs goes on")
    theirs.stop()
    assert sorted(map(int, theirs.values)) == group.everything[40:]


def test_their_console_consumer_runs_with_the_options_that_the_page_gives(over_zookeeper: MemberCluster) -> None:
    require(old_java.missing(VERSION))
    page = Path(__file__).parents[4] / "docs" / "how-to" / "zookeeper-consumers.md"
    given = re.search(r'KAFKA_JVM_PERFORMANCE_OPTS="(.*)"', page.read_text())
    assert given is not None
    topic = over_zookeeper.new_topic()
    over_zookeeper.write(topic, 1, 0, 3)
    words = ["--zookeeper", over_zookeeper.zookeeper, "--topic", topic, "--from-beginning", "--max-messages", "3"]
    jars = old_java.jars(VERSION)
    printed = java.run_java(jars, "kafka.tools.ConsoleConsumer", words, jvm=given[1].split())
    assert printed.split() == ["0", "1", "2"]
