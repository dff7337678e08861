"""Our controller over brokers of Apache Kafka, judged by Kafka's own tools; then Kafka's controller, and ours again."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from broker.metadata.znodes import controller, paths
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka_tools import KafkaTools
from tests.broker.member.mixed_cluster import AS_2_8, OURS, THEIRS, MixedCluster, mixed_cluster, mixes
from tests.support.broker_cluster import IDS
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.usefixtures("processes")]

TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


SETTLED_S = 3.0
"""A controller has taken over after so long."""


class Judge:
    """A mixed cluster, Kafka's tools, and a client of ZooKeeper."""

    def __init__(self, cluster: MixedCluster, tools: KafkaTools, zookeeper: KazooClient) -> None:
        self.cluster = cluster
        self._tools = tools
        self._zookeeper = zookeeper

    def run(self, tool: str, *words: str) -> list[str]:
        found = self._tools.run(tool, "--bootstrap-server", self.cluster.address(OURS), *words)
        assert not [line for line in found if line.startswith(("Error", "Exit"))], found
        return found

    def controller(self) -> int:
        """Return the controller, or -1."""
        try:
            return controller.decode(self._zookeeper.get(paths.CONTROLLER)[0])
        except NoNodeError:
            return -1

    def make_controller(self, wanted: int) -> None:
        """Force elections until this broker wins, as operators do.

        Apache Kafka's controller looks at its own node a while after it has made it. If the node is gone by then, it
        resigns, and no broker stands for election any more: each waits for a change of a node that there is not.
        """
        seen, since = -1, time.monotonic()

        def has_won() -> bool:
            nonlocal seen, since
            present, now = self.controller(), time.monotonic()
            if present != seen:
                seen, since = present, now
            if present not in (-1, wanted) and now >= since + SETTLED_S:
                self._zookeeper.delete(paths.CONTROLLER)
                seen = -1
            return present == wanted

        wait_until(has_won, f"{wanted} is the controller")

    def leaders(self, topic: str) -> dict[int, int]:
        return {index: each.leader_id for index, each in self.cluster.partitions(topic, OURS).items()}


@pytest.fixture(params=mixes(AS_2_8))
def judge(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Judge]:
    require(kafka.missing(request.param.release))
    with ExitStack() as stack:
        cluster = stack.enter_context(mixed_cluster(tmp_path, request.param, controller=OURS))
        client = KazooClient(cluster.ours.overrides["zookeeper.connect"])
        client.start()
        stack.callback(client.close)
        stack.callback(client.stop)
        tools = stack.enter_context(KafkaTools(kafka.KAFKA_3))
        judge = Judge(cluster, tools, client)
        assert judge.controller() == OURS
        yield judge


def test_our_controller_leads_brokers_of_apache_kafka(judge: Judge, tmp_path: Path) -> None:
    cluster, first, second = judge.cluster, THEIRS, 2
    judge.run(TOPICS, "--create", "--topic", "words", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
    judge.run(TOPICS, "--create", "--topic", "pair", "--replica-assignment", "1:2")
    wait_in_sync(cluster, IDS)
    assert judge.leaders("words") == {0: 1, 1: 2, 2: 3}
    described = judge.run(TOPICS, "--describe", "--topic", "words")
    assert sum("Isr: " in line for line in described) == 3
    assert judge.run(TOPICS, "--describe", "--under-replicated-partitions") == []
    writer = cluster.writer()
    for index in range(3):
        writer.send("words", [b"%d" % number for number in range(100)], index)
    writer.send("pair", [b"one"] * 100)
    writer.flush()

    # A broker dies: its partitions get other leaders.
    cluster.kill(second)
    wait_in_sync(cluster, {first, OURS})
    cluster.wait_isr("pair", {first})
    assert judge.leaders("words")[1] == OURS
    for index in range(3):
        writer.send("words", [b"more"] * 50, index)
    writer.flush()
    cluster.restart(second)
    wait_in_sync(cluster, IDS)
    cluster.wait_isr("pair", {first, second})

    # Preferred leaders lead again when they are asked to.
    judge.run(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    wait_until(lambda: judge.leaders("words") == {0: 1, 1: 2, 2: 3}, "the preferred leaders lead")

    # A partition moves.
    plan = tmp_path / "plan.json"
    moved = [{"topic": "pair", "partition": 0, "replicas": [OURS, second]}]
    plan.write_text(json.dumps({"version": 1, "partitions": moved}))
    judge.run(REASSIGN, "--reassignment-json-file", str(plan), "--execute")
    done = "Reassignment of partition pair-0 is completed."
    wait_until(
        lambda: done in judge.run(REASSIGN, "--reassignment-json-file", str(plan), "--verify"), "the partition moves"
    )
    cluster.wait_isr("pair", {second, OURS})
    wait_until(lambda: not (cluster.log_dir(first) / "pair-0").exists(), "the former replica is deleted")

    # A broker of Kafka shuts down in order: nobody waits for its session.
    cluster.stop(first)
    assert first not in {each.leader_id for each in cluster.partitions("words", OURS).values()}
    cluster.restart(first)
    wait_in_sync(cluster, IDS)

    # The office goes to Kafka and comes back.
    cluster.ours.stop()
    judge.make_controller(first)
    cluster.wait_isr("words", {first, second}, 0)
    cluster.ours.start()
    cluster.wait_isr("words", IDS, 0)
    judge.run(TOPICS, "--create", "--topic", "theirs", "--replica-assignment", "3:1:2")
    cluster.wait_isr("theirs", IDS)
    judge.make_controller(OURS)
    judge.run(TOPICS, "--create", "--topic", "ours", "--replica-assignment", "2:3:1")
    cluster.wait_isr("ours", IDS)
    writer.send("words", [b"last"] * 20, 0)
    writer.flush()
    for index in range(3):
        cluster.wait_equal("words", index)
    assert [len(cluster.read("words", index)) for index in range(3)] == [170, 150, 150]
    assert len(cluster.read("pair")) == 100

    judge.run(TOPICS, "--delete", "--topic", "words")
    wait_until(lambda: not cluster.partitions("words", OURS), "the topic is gone")
    for broker in IDS:
        wait_until(partial(has_none, cluster.log_dir(broker)), f"its logs are gone on {broker}")
    assert not writer.failed


def wait_in_sync(cluster: MixedCluster, isr: Collection[int]) -> None:
    """Wait until all partitions of the topic have this ISR, as each of its brokers describes them.

    Brokers learn of topics one after another, and Kafka's tools ask any of them.
    """
    for broker in isr:
        for index in range(3):
            cluster.wait_isr("words", isr, index, broker=broker)


def has_none(directory: Path) -> bool:
    """Return whether no log of the topic is left in a log directory."""
    return not list(directory.glob("words-?"))
