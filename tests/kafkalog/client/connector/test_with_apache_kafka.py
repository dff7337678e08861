"""Groups in ZooKeeper whose members are ours and Kafka 0.8.2's."""

from __future__ import annotations

import re
import subprocess
import threading
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

import pytest

from kafkalog.client.connector import Blacklist, ConsumerConnector, Whitelist
from kafkalog.client.consumer.topic_filter import TopicFilter
from peers import require
from peers.clients import old_java
from peers.clients.old_connector import VERSION, OldConnector
from peers.toolchains import java
from tests.kafkalog.client.connector.reading import Reading
from tests.support.command import start
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

    def ours(self, streams: int = 1) -> tuple[ConsumerConnector, Reading]:
        member = self._stack.enter_context(ConsumerConnector(self.properties))
        return member, Reading(*member.create_message_streams({self.topic: streams})[self.topic])

    def ours_by_filter(self, topics: TopicFilter, streams: int = 1) -> tuple[ConsumerConnector, Reading]:
        member = self._stack.enter_context(ConsumerConnector(self.properties))
        return member, Reading(*member.create_message_streams_by_filter(topics, streams))

    def our_process(self) -> tuple[subprocess.Popen[bytes], list[int]]:
        """Start `kafkalog consume`, which can be killed as no thread can; return it and the values that it prints."""
        more = [word for pair in self.properties.items() for word in ("--consumer-property", "=".join(pair))]
        process = start("consume", "--zookeeper", self._cluster.zookeeper, "--topic", self.topic, *more)
        self._stack.callback(process.wait)
        values: list[int] = []
        reader = threading.Thread(target=lambda: values.extend(map(int, process.stdout or ())))
        reader.start()
        self._stack.callback(reader.join)
        self._stack.callback(process.kill)
        return process, values

    def theirs(self, streams: int = 1) -> OldConnector:
        return self._joined(OldConnector(self.topic, self.properties, self._new_log(), streams=streams))

    def theirs_by_filter(self, kind: Literal["white", "black"], topics: str, streams: int = 1) -> OldConnector:
        return self._joined(OldConnector(topics, self.properties, self._new_log(), kind=kind, streams=streams))

    def _new_log(self) -> Path:
        return self._directory / f"{uuid.uuid4().hex}.log"

    def _joined(self, member: OldConnector) -> OldConnector:
        self._stack.callback(member.kill)
        member.wait_ready()
        return member

    def write(self, count: int, topic: str = "", partitions: int = PARTITIONS) -> None:
        self._cluster.write(topic or self.topic, partitions, self._written, count)
        self._written += count

    @property
    def everything(self) -> list[int]:
        return list(range(self._written))

    def wait_owners(self, members: int, topic: str = "", partitions: int = PARTITIONS) -> None:
        """Wait until all partitions of a topic are owned, by so many members."""

        def owned() -> tuple[int, int]:
            owners = self._cluster.owners(self.name, topic or self.topic)
            return len(owners), len({each.rpartition("-")[0] for each in owners.values()})

        wait_until(lambda: owned() == (partitions, members), f"{members} members own {partitions} partitions")

    def streams(self) -> Counter[str]:
        """Return the number of the topic's partitions that each stream owns."""
        return Counter(self._cluster.owners(self.name, self.topic).values())


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


def test_partitions_of_our_member_that_was_killed_are_taken_over(group: MixedGroup) -> None:
    process, values = group.our_process()
    theirs = group.theirs()
    group.wait_owners(2)
    group.write(20)
    wait_until(lambda: len(values) + len(theirs.values) >= 20, "all is read")
    assert values
    process.kill()
    # The owner's node of each partition ends with its session.
    group.wait_owners(1)
    group.write(20)
    # What ours had not committed comes again.
    wait_until(lambda: set(values) | set(map(int, theirs.values)) == set(group.everything), "nothing is missed")


def test_members_with_several_streams_share_the_partitions(group: MixedGroup) -> None:
    _, read = group.ours(2)
    theirs = group.theirs(2)
    group.wait_owners(2)
    wait_until(lambda: sorted(group.streams().values()) == [1, 1, 1, 2], "each of four streams owns partitions")
    group.write(50)
    wait_until(lambda: len(read.values) + len(theirs.values) >= 50, "all is read")
    assert sorted([*read.values, *map(int, theirs.values)]) == group.everything
    # More streams than partitions: the last ones own none.
    _, more = group.ours(3)
    group.wait_owners(3)
    wait_until(lambda: sorted(group.streams().values()) == [1] * PARTITIONS, "five of seven streams own a partition")
    group.write(50)
    wait_until(lambda: len(read.values) + len(more.values) + len(theirs.values) >= 100, "all is read")
    assert sorted([*read.values, *more.values, *map(int, theirs.values)]) == group.everything


@pytest.mark.parametrize("kind", ["white", "black"])
def test_members_with_filters_share_topics_of_now_and_later(
    group: MixedGroup, over_zookeeper: MemberCluster, kind: Literal["white", "black"]
) -> None:
    # A white list of these topics, or a black list of all others.
    topics = f"{group.topic}.*" if kind == "white" else f"(?!{group.topic}).*"
    _, read = group.ours_by_filter(Whitelist(topics) if kind == "white" else Blacklist(topics))
    theirs = group.theirs_by_filter(kind, topics)
    group.wait_owners(2)
    group.write(50)
    wait_until(lambda: len(read.values) + len(theirs.values) >= 50, "all is read")
    assert read.values
    assert theirs.values
    later = f"{group.topic}-later"
    over_zookeeper.make_topic(later, 4)
    group.wait_owners(2, later, 4)
    group.write(50, later, 4)
    wait_until(lambda: len(read.values) + len(theirs.values) >= 100, "all is read")
    assert sorted([*read.values, *map(int, theirs.values)]) == group.everything


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
