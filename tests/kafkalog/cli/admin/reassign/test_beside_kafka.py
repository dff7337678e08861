"""Test `kafkalog reassign` and `kafkalog elect` on clusters of three brokers, beside Kafka's own tools.

The brokers are ours, then Apache Kafka's.
"""

from __future__ import annotations

import json
import re
import signal
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Producer

from kafkalog.client.admin import Admin, ConfigResource, NewTopic
from kafkalog.client.types import TopicPartition
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka_tools import KafkaTools
from peers.brokers.zookeeper import ZooKeeper
from tests.crash.cluster.drilled import drilled_cluster
from tests.support.broker_cluster import IDS
from tests.support.command import Ended, call, run, start
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("foreign_programs"), pytest.mark.timeout(600)]

OURS = "kafkalog"
HEAP = ("-Xmx300M", "-Xms100M")
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
SETTINGS = {"auto.leader.rebalance.enable": "false", "controlled.shutdown.retry.backoff.ms": "200"}


class Cluster(Protocol):
    """Processes of brokers, which are named by their ids."""

    def address(self, broker: int) -> str:
        """Return host:port."""

    def stop(self, number: int) -> None:
        """Stop a broker in good order."""

    def kill(self, number: int) -> None:
        """Kill a broker by SIGKILL."""

    def start(self, number: int) -> None:
        """Start a broker again, at the address of before."""


class ApacheCluster:
    """Brokers of Apache Kafka."""

    def __init__(self, brokers: dict[int, kafka.ZooKeeperKafka]) -> None:
        self._brokers = brokers

    def address(self, broker: int) -> str:
        return self._brokers[broker].bootstrap

    def stop(self, number: int) -> None:
        self._brokers[number].stop()

    def kill(self, number: int) -> None:
        self._brokers[number].kill()

    def start(self, number: int) -> None:
        self._brokers[number].restart()


def _has_partitions(admin: Admin, topic: str, count: int) -> bool:
    return topic in admin.list_topics() and len(admin.describe_topics([topic])[topic].partitions) == count


class Brokers:
    """Three brokers, with the actions of an administrator.

    Attributes:
        processes: the brokers.
        address: the addresses of all of them.
    """

    def __init__(self, processes: Cluster) -> None:
        self.processes = processes
        self.address = ",".join(map(processes.address, IDS))

    def admin(self) -> Admin:
        return Admin({"bootstrap.servers": self.address})

    def topic(self, *replicas: list[int]) -> str:
        name = f"moved-{uuid.uuid4().hex[:8]}"
        with self.admin() as admin:
            admin.create_topics([NewTopic(name, assignments=dict(enumerate(replicas)))])
        self.wait_partitions(name, len(replicas))
        return name

    def wait_partitions(self, topic: str, count: int) -> None:
        """Wait until every broker knows a topic's partitions.

        Each learns of them by itself, and a tool asks any of them.
        """
        for broker in IDS:
            with Admin({"bootstrap.servers": self.processes.address(broker)}) as admin:
                wait_until(lambda: _has_partitions(admin, topic, count), f"broker {broker} knows {topic}")

    def replicas(self, topic: str) -> list[list[int]]:
        with self.admin() as admin:
            found = admin.describe_topics([topic])[topic].partitions
        return [list(found[index].replicas) for index in sorted(found)]

    def leaders(self, topic: str) -> list[int]:
        with self.admin() as admin:
            found = admin.describe_topics([topic])[topic].partitions
        return [found[index].leader for index in sorted(found)]

    def fill(self, topic: str, records: int, size: int) -> None:
        producer = Producer({"bootstrap.servers": self.address, "log_level": 0})
        for _ in range(records):
            producer.produce(topic, bytes(size), partition=0)
            producer.poll(0)
        assert producer.flush(60) == 0

    def has_throttles(self, topic: str, wanted: set[str]) -> None:
        """Wait until these throttles are set; brokers learn of their configurations one after another."""
        wait_until(lambda: wanted <= self.throttles(topic), f"{wanted} are set")

    def has_no_throttles(self, topic: str) -> None:
        """Wait until no throttle is set."""
        wait_until(lambda: not self.throttles(topic), "no throttle is set")

    def throttles(self, topic: str) -> set[str]:
        """Return the throttles that are set, of the topic and of the brokers."""
        with self.admin() as admin:
            resources = [ConfigResource.topic(topic), *map(ConfigResource.broker, IDS)]
            described = admin.describe_configs(resources)
        return {
            f"{resource.name} {name}={entry.value}"
            for resource, entries in described.items()
            for name, entry in entries.items()
            if "throttled" in name and not entry.is_default and entry.value
        }


@contextmanager
def apache_cluster(directory: Path) -> Iterator[ApacheCluster]:
    """Run three brokers of Apache Kafka over ZooKeeper; all processes end with the block."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, directory / "zookeeper"))
        zookeeper.wait()
        started = {}
        for number in IDS:
            config = {**SETTINGS, "broker.id": str(number)}
            broker = kafka.ZooKeeperKafka(
                kafka.KAFKA_3, zookeeper.address, directory=directory / str(number), config=config, heap=HEAP
            )
            stack.callback(broker.stop)
            broker.start(wait=number == IDS[0])
            started[number] = broker
        yield ApacheCluster(started)


@pytest.fixture(scope="module", params=[OURS, "Apache Kafka"])
def brokers(
    request: pytest.FixtureRequest, foreign_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Brokers]:
    require(kafka.missing(kafka.KAFKA_3))
    directory = tmp_path_factory.mktemp("three")
    with ExitStack() as stack:
        processes: Cluster
        if request.param == OURS:
            processes = stack.enter_context(drilled_cluster(directory, {"min.insync.replicas": "1"}))
        else:
            processes = stack.enter_context(apache_cluster(directory))
        found = Brokers(processes)
        with found.admin() as admin:
            wait_until(lambda: len(admin.describe_cluster().brokers) == len(IDS), "all brokers are registered")
        yield found


@pytest.fixture(scope="module")
def tools(foreign_programs: None) -> Iterator[KafkaTools]:
    with KafkaTools(kafka.KAFKA_3) as running:
        yield running


def reassign(brokers: Brokers, action: str, *words: str, check: int = 0) -> Ended:
    return call("reassign", action, "--bootstrap-server", brokers.address, *words, check=check)


def written(tmp_path: Path, topic: str, *replicas: list[int]) -> str:
    partitions = [{"topic": topic, "partition": index, "replicas": each} for index, each in enumerate(replicas)]
    file = tmp_path / f"{topic}-{len(list(tmp_path.iterdir()))}.json"
    file.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(file)


def test_a_generated_plan_is_executed_followed_and_verified(
    brokers: Brokers, tools: KafkaTools, tmp_path: Path
) -> None:
    topic = brokers.topic([1, 2], [1, 2], [2, 1], [1, 2])
    brokers.fill(topic, 300, 10_000)
    out = reassign(brokers, "generate", "--topic", topic, "--broker-list", "1,2,3").out
    assert out[0] == "Current partition replica assignment"
    assert out[3] == "Proposed partition reassignment configuration"
    proposed = json.loads(out[4])
    assert {broker for each in proposed["partitions"] for broker in each["replicas"]} == {1, 2, 3}
    file = tmp_path / "plan.json"
    file.write_text(out[4])
    done = reassign(
        brokers, "execute", "--reassignment-json-file", str(file), "--throttle", "100000000", "--follow"
    ).out
    assert json.loads(done[2]) == json.loads(out[1])
    named = ",".join(f"{topic}-{index}" for index in range(4))
    assert f"Successfully started partition reassignments for {named}" in done
    wanted = [each["replicas"] for each in proposed["partitions"]]
    wait_until(lambda: brokers.replicas(topic) == wanted, "the replicas are the proposed ones")
    brokers.has_no_throttles(topic)
    ours = reassign(brokers, "verify", "--reassignment-json-file", str(file)).out
    theirs = tools.run(
        REASSIGN, "--bootstrap-server", brokers.address, "--verify", "--reassignment-json-file", str(file)
    )
    assert [line for line in ours if line] == [line for line in theirs if line]


def test_a_throttled_move_is_seen_by_kafkas_tool_and_cancelled(
    brokers: Brokers, tools: KafkaTools, tmp_path: Path
) -> None:
    topic = brokers.topic([1])
    brokers.fill(topic, 300, 10_000)
    file = written(tmp_path, topic, [2])
    out = reassign(brokers, "execute", "--reassignment-json-file", file, "--throttle", "1000").out
    assert "The inter-broker throttle limit was set to 1000 B/s" in out
    brokers.has_throttles(
        topic,
        {
            f"{topic} leader.replication.throttled.replicas=0:1",
            f"{topic} follower.replication.throttled.replicas=0:2",
            "1 leader.replication.throttled.rate=1000",
            "2 follower.replication.throttled.rate=1000",
        },
    )
    status = reassign(brokers, "verify", "--reassignment-json-file", file).out
    assert f"Reassignment of partition {topic}-0 is still in progress." in status
    assert any("1 partitions, " in line and "MiB left" in line for line in status)
    theirs = tools.run(REASSIGN, "--bootstrap-server", brokers.address, "--list")
    assert theirs == [line for line in reassign(brokers, "list").out if "left" not in line and line]
    described = ("--bootstrap-server", brokers.address, "--topic", topic)
    shown, theirs = call("topics", "describe", *described).out, tools.run(TOPICS, "--describe", *described)
    # Configurations have another order there, and eligible leaders depend on the request that the tool uses.
    assert [re.split("\t(?:Configs|Elr): ", line)[0] for line in shown] == [
        re.split("\t(?:Configs|Elr): ", line)[0] for line in theirs
    ]
    assert "\tReplicationFactor: 1\t" in shown[0]
    assert "\tAdding Replicas: 2\tRemoving Replicas: 1\t" in shown[1]
    assert call("topics", "describe", *described, "--under-replicated-partitions").out == []
    again = reassign(brokers, "execute", "--reassignment-json-file", file, check=1)
    assert "--additional" in again.err
    cancelled = reassign(brokers, "cancel", "--reassignment-json-file", file).out
    assert cancelled[0] == f"Successfully cancelled partition reassignment for: {topic}-0"
    brokers.has_no_throttles(topic)
    wait_until(lambda: brokers.replicas(topic) == [[1]], "the replicas are those of before")
    assert reassign(brokers, "list").out == ["No partition reassignments found."]
    assert "None of the specified" in reassign(brokers, "cancel", "--reassignment-json-file", file).out[0]
    unlike = reassign(brokers, "verify", "--reassignment-json-file", file, check=1).out
    assert f"no active reassignment of partition {topic}-0, but replica set is 1 rather than 2." in unlike[1]


@pytest.mark.parametrize("brokers", [OURS], indirect=True)
def test_it_is_told_what_a_move_waits_for(brokers: Brokers, tmp_path: Path) -> None:
    topic = brokers.topic([1])
    # More than the replica gets by its first fetches, which are not throttled.
    brokers.fill(topic, 600, 10_000)
    file = written(tmp_path, topic, [3])

    def told() -> list[str]:
        return [line for line in reassign(brokers, "verify", "--reassignment-json-file", file).out if line[:2] == "  "]

    def is_behind() -> bool:
        return any(re.fullmatch(r"  broker 3 lacks \d+ records", line) for line in told())

    reassign(brokers, "execute", "--reassignment-json-file", file, "--throttle", "1000")
    wait_until(is_behind, "the target is behind")
    brokers.processes.kill(3)
    wait_until(lambda: "  broker 3 is not alive" in told(), "the target is not alive")
    brokers.processes.start(3)
    wait_until(is_behind, "the target is behind again")
    reassign(brokers, "cancel", "--reassignment-json-file", file)
    wait_until(lambda: brokers.replicas(topic) == [[1]], "the replicas are those of before")
    brokers.has_no_throttles(topic)


def test_a_move_that_is_followed_leaves_the_throttles_of_others(brokers: Brokers, tmp_path: Path) -> None:
    others, ours = brokers.topic([1]), brokers.topic([1], [1])
    brokers.fill(others, 300, 10_000)
    theirs = written(tmp_path, others, [2])
    reassign(brokers, "execute", "--reassignment-json-file", theirs, "--throttle", "1000")
    set_by_others = {
        f"{others} leader.replication.throttled.replicas=0:1",
        f"{others} follower.replication.throttled.replicas=0:2",
        "1 leader.replication.throttled.rate=1000",
        "2 follower.replication.throttled.rate=1000",
    }
    for number, throttle in enumerate([(), ("--throttle", "1000")]):
        replicas = [[3], [1]] if number == 0 else [[3], [3]]
        file = written(tmp_path, ours, *replicas)
        words = ("execute", "--additional", "--follow", "--reassignment-json-file", file, *throttle)
        assert not any("Clearing" in line for line in reassign(brokers, *words).out)
        assert brokers.replicas(ours) == replicas
        brokers.has_throttles(others, set_by_others)
    for action in ("verify", "cancel"):
        told = reassign(brokers, action, "--reassignment-json-file", file).out
        assert "Other reassignments are in progress, and the throttles stay. " in told[-1]
        assert not any("Clearing" in line for line in told)
    brokers.has_throttles(others, set_by_others)
    reassign(brokers, "cancel", "--reassignment-json-file", theirs)
    reassign(brokers, "verify", "--reassignment-json-file", file)
    brokers.has_no_throttles(others)
    brokers.has_no_throttles(ours)


def test_ctrl_c_says_how_the_throttle_is_removed(brokers: Brokers, tmp_path: Path) -> None:
    topic = brokers.topic([1])
    brokers.fill(topic, 300, 10_000)
    file = written(tmp_path, topic, [2])
    words = ("execute", "--follow", "--throttle", "1000", "--reassignment-json-file", file)
    process = start("reassign", *words, "--bootstrap-server", brokers.address)
    try:
        assert process.stdout is not None
        while b"left" not in (line := process.stdout.readline()):
            assert line, "it ended before it told how much is left"
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    remedy = f"kafkalog reassign verify --reassignment-json-file {file}"
    assert [line for line in err.decode().splitlines() if "throttles stay" in line and remedy in line]
    brokers.has_throttles(topic, {"2 follower.replication.throttled.rate=1000"})
    reassign(brokers, "cancel", "--reassignment-json-file", file)
    brokers.has_no_throttles(topic)


def test_what_kafkas_tool_began_is_verified_by_ours(brokers: Brokers, tools: KafkaTools, tmp_path: Path) -> None:
    topic = brokers.topic([1], [2])
    file = written(tmp_path, topic, [3], [3])
    words = ("--execute", "--reassignment-json-file", file, "--throttle", "50000000")
    tools.run(REASSIGN, "--bootstrap-server", brokers.address, *words)
    out = reassign(brokers, "verify", "--follow", "--reassignment-json-file", file).out
    assert [line for line in out if "is completed" in line] == [
        f"Reassignment of partition {topic}-{index} is completed." for index in range(2)
    ]
    brokers.has_no_throttles(topic)


def test_refusals(brokers: Brokers, tmp_path: Path) -> None:
    topic = brokers.topic([1])
    assert "are not alive" in reassign(brokers, "generate", "--topic", topic, "--broker-list", "1,9", check=2).err
    assert (
        "1 brokers"
        in reassign(brokers, "generate", "--topic", brokers.topic([1, 2]), "--broker-list", "1", check=2).err
    )
    dead = reassign(brokers, "execute", "--reassignment-json-file", written(tmp_path, topic, [9]), check=1)
    assert f"{topic}-0: " in dead.err
    unknown = reassign(brokers, "execute", "--reassignment-json-file", written(tmp_path, "no-such", [1]), check=1)
    assert "no-such" in unknown.err


def elect(brokers: Brokers, *words: str, check: int = 0) -> Ended:
    return call("elect", "--bootstrap-server", brokers.address, *words, check=check)


def test_preferred_leaders_are_elected(brokers: Brokers, tools: KafkaTools, tmp_path: Path) -> None:
    topic = brokers.topic([1, 2], [1, 2], [2, 1])
    with brokers.admin() as admin:
        admin.replicas.alter_partition_reassignments({TopicPartition(topic, index): [2, 1] for index in range(3)})
        wait_until(lambda: not admin.replicas.list_partition_reassignments(), "the new order")
    wait_until(lambda: brokers.leaders(topic) == [1, 1, 2], "all know the leaders")
    one = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
    assert elect(brokers, *one).out == [f"Successfully completed leader election (PREFERRED) for partitions {topic}-0"]
    assert elect(brokers, *one).out == [f"Valid replica already elected for partitions {topic}-0"]
    file = tmp_path / "partitions.json"
    file.write_text(json.dumps({"partitions": [{"topic": topic, "partition": index} for index in range(3)]}))
    both = ("--election-type", "PREFERRED", "--path-to-json-file", str(file))
    assert elect(brokers, *both).out == [
        f"Successfully completed leader election (PREFERRED) for partitions {topic}-1",
        f"Valid replica already elected for partitions {topic}-0, {topic}-2",
    ]
    wait_until(lambda: brokers.leaders(topic) == [2, 2, 2], "all know the leaders")
    (theirs,) = tools.run(ELECT, "--bootstrap-server", brokers.address, *both)
    said, _, named = theirs.partition(" for partitions ")
    assert said == "Valid replica already elected"
    assert set(named.split(", ")) == {f"{topic}-{index}" for index in range(3)}
    elect(brokers, "--election-type", "preferred", "--all-topic-partitions")
    unknown = elect(brokers, "--election-type", "preferred", "--topic", "no-such", "--partition", "0", check=1)
    assert "no-such-0" in unknown.err
    assert elect(brokers, "--election-type", "preferred", "--topic", topic, check=2).err.endswith("go together\n")


def test_topics_are_placed_as_told(brokers: Brokers) -> None:
    topic, server = f"placed-{uuid.uuid4().hex[:8]}", ("--bootstrap-server", brokers.address)
    named = ("--topic", topic)
    call("topics", "create", *server, *named, "--replica-assignment", "1:2:3,2:3", check=2)
    placed = ("--replica-assignment", "2:3:1,3:1:2", "--config", "min.insync.replicas=3")
    assert call("topics", "create", *server, *named, *placed).out == [f"Created topic {topic}."]
    brokers.wait_partitions(topic, 2)
    assert brokers.replicas(topic) == [[2, 3, 1], [3, 1, 2]]
    assert brokers.leaders(topic) == [2, 3]
    call("topics", "alter", *server, *named, "--partitions", "3", "--replica-assignment", "2:3:1,3:1:2,1:3:2")
    brokers.wait_partitions(topic, 3)
    assert brokers.replicas(topic) == [[2, 3, 1], [3, 1, 2], [1, 3, 2]]
    (line,) = call("topics", "describe", *server, *named, "--topics-with-overrides").out
    assert line.startswith(f"Topic: {topic}\t")
    assert "min.insync.replicas=3" in line


def test_an_unclean_election_and_what_topics_describe_shows(brokers: Brokers) -> None:
    topic, processes = brokers.topic([2, 3]), brokers.processes
    server = ("--bootstrap-server", brokers.address, "--topic", topic)

    def shown(what: str) -> list[str]:
        return call("topics", "describe", *server, what).out

    processes.stop(3)
    brokers.fill(topic, 1, 10)
    wait_until(lambda: len(shown("--under-replicated-partitions")) == 1, "the replica is out of sync")
    assert shown("--under-replicated-partitions")[0].startswith(f"\tTopic: {topic}\tPartition: 0\tLeader: 2\t")
    assert shown("--unavailable-partitions") == shown("--under-min-isr-partitions") == []
    call("topics", "alter", *server, "--config", "min.insync.replicas=2")
    wait_until(lambda: len(shown("--under-min-isr-partitions")) == 1, "the ISR is too small")
    processes.kill(2)
    processes.start(3)
    wait_until(lambda: len(shown("--unavailable-partitions")) == 1, "nobody leads", 60)
    words = ("--topic", topic, "--partition", "0")
    refused = elect(brokers, "--election-type", "preferred", *words, check=1)
    assert f"{topic}-0" in refused.err
    assert elect(brokers, "--election-type", "unclean", *words).out == [
        f"Successfully completed leader election (UNCLEAN) for partitions {topic}-0"
    ]
    wait_until(lambda: brokers.leaders(topic) == [3], "all know the leaders")
    processes.start(2)
    for what in ("--under-replicated-partitions", "--under-min-isr-partitions", "--unavailable-partitions"):
        wait_until(partial(lambda what: shown(what) == [], what), f"both are in sync: {what}")


def test_the_command_as_a_process(brokers: Brokers) -> None:
    done = run("reassign", "list", "--bootstrap-server", brokers.address)
    assert done.stdout == b"No partition reassignments found.\n"
