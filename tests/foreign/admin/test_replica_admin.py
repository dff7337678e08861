"""Tests of foreign admin clients: elections, reassignments and moves between log directories."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import kafka
import kafka.errors
import pytest
from confluent_kafka.admin import AdminClient

from peers import require
from peers.brokers import kafka as apache
from peers.clients.base import ForeignClient
from tests.support.command import call
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, create_topic, produce

ELECTION_NOT_NEEDED, UNKNOWN_TOPIC_OR_PARTITION = 84, 3
LEADER_ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"


@pytest.fixture(scope="module")
def python_admin(bootstrap: str) -> Iterator[kafka.KafkaAdminClient]:
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)
    yield admin
    admin.close()


def planned(tmp_path: Path, topic: str, directory: str) -> tuple[str, str]:
    """Write the plan that puts the topic's only replica into a directory; return the option that names it."""
    plan = tmp_path / "plan.json"
    rows = [{"topic": topic, "partition": 0, "replicas": [0], "log_dirs": [directory]}]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    return "--reassignment-json-file", str(plan)


def tool(main: str, *words: str) -> list[str]:
    """Run one of Kafka's tools, which end their process themselves; return what it prints, without empty lines."""
    require(apache.missing(apache.KAFKA_4))
    return [line for line in apache.run_java_tool(main, list(words)).splitlines() if line.strip()]


def test_librdkafka_elects(bootstrap: str, referee: ForeignClient, topic: str) -> None:
    referee.create_topic(topic, partitions=2)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [confluent_kafka.TopicPartition(topic, index) for index in (0, 1, 7)]
    for kind in confluent_kafka.ElectionType:
        outcomes = admin.elect_leaders(kind, wanted).result(30)
        codes = {tp.partition: None if error is None else error.code() for tp, error in outcomes.items()}
        assert codes == {0: ELECTION_NOT_NEEDED, 1: ELECTION_NOT_NEEDED, 7: UNKNOWN_TOPIC_OR_PARTITION}


def test_kafka_python_elects_and_reassigns(
    python_admin: kafka.KafkaAdminClient, referee: ForeignClient, topic: str
) -> None:
    referee.create_topic(topic, partitions=2)
    response = python_admin.elect_leaders(0, {topic: [0, 1]})
    ((name, results, *_),) = [tuple(row) for row in response.replica_election_results]
    assert name == topic
    assert {row.partition_id: row.error_code for row in results} == dict.fromkeys((0, 1), ELECTION_NOT_NEEDED)
    (here,) = [broker["broker_id"] for broker in python_admin.describe_cluster()["brokers"]]
    tps = [kafka.TopicPartition(topic, index) for index in range(2)]
    outcomes = python_admin.alter_partition_reassignments({tps[0]: [here], tps[1]: None})
    assert outcomes == {tps[0]: None, tps[1]: kafka.errors.NoReassignmentInProgressError}
    assert python_admin.list_partition_reassignments() == {}


@pytest.mark.peer
def test_javas_election_tool(bootstrap: str, referee: ForeignClient, topic: str) -> None:
    referee.create_topic(topic)
    words = ("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0")
    said = tool(LEADER_ELECTION, *words, "--election-type", "preferred")
    assert said == [f"Valid replica already elected for partitions {topic}-0"]


@pytest.mark.peer
def test_javas_reassignment_tool(bootstrap: str, referee: ForeignClient, topic: str, tmp_path: Path) -> None:
    referee.create_topic(topic)
    words = ("--bootstrap-server", bootstrap, *planned(tmp_path, topic, "any"))
    assert f"Successfully started partition reassignment for {topic}-0" in tool(REASSIGN, *words, "--execute")
    assert f"Reassignment of partition {topic}-0 is completed." in tool(REASSIGN, *words, "--verify")
    assert tool(REASSIGN, "--bootstrap-server", bootstrap, "--list") == ["No partition reassignments found."]


@pytest.fixture
def two_dirs(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> KafkalogBroker:
    """A broker with two log directories."""
    return start_broker({"log.dirs": f"{tmp_path / 'one'},{tmp_path / 'two'}"})


def move_away(broker: KafkalogBroker, topic: str, tmp_path: Path) -> Path:
    """Make a topic with a record; the log directory that it is not in."""
    with broker.connect() as sock:
        create_topic(sock, topic, 1)
        assert produce(sock, topic, batch([b"x"])).error_code == 0
    return next(path for path in (tmp_path / "one", tmp_path / "two") if not (path / f"{topic}-0").exists())


def test_kafka_python_moves(two_dirs: KafkalogBroker, topic: str, tmp_path: Path) -> None:
    target = move_away(two_dirs, topic, tmp_path)
    admin = kafka.KafkaAdminClient(bootstrap_servers=two_dirs.bootstrap)
    try:
        replica = kafka.TopicPartitionReplica(topic, 0, 0)
        assert admin.alter_replica_log_dirs({replica: str(target)}) == {replica: kafka.errors.NoError}
        wait_until(lambda: (target / f"{topic}-0").exists(), "it was moved")
        assert admin.alter_replica_log_dirs({replica: str(tmp_path)}) == {replica: kafka.errors.LogDirNotFoundError}
    finally:
        admin.close()


@pytest.mark.peer
def test_javas_reassignment_tool_moves(two_dirs: KafkalogBroker, topic: str, tmp_path: Path) -> None:
    target = move_away(two_dirs, topic, tmp_path)
    words = ("--bootstrap-server", two_dirs.bootstrap, *planned(tmp_path, topic, str(target)))
    done = tool(REASSIGN, *words, "--execute", "--replica-alter-log-dirs-throttle", "1000000")
    begun = f"Successfully started moving log directory to {target} for replica {topic}-0 with broker 0"
    assert begun in [line.strip() for line in done]
    wait_until(lambda: (target / f"{topic}-0").exists(), "it was moved")
    done = tool(REASSIGN, *words, "--verify")
    assert f"Reassignment of replica {topic}-0-0 completed successfully." in done
    assert call("reassign", "verify", *words).out[1:3] == done[1:3]


def test_our_command_moves(two_dirs: KafkalogBroker, topic: str, tmp_path: Path) -> None:
    target = move_away(two_dirs, topic, tmp_path)
    words = ("--bootstrap-server", two_dirs.bootstrap, *planned(tmp_path, topic, str(target)))
    away = f"Partition {topic}-0 on broker 0 is not being moved from log dir {tmp_path}"
    assert away in "\n".join(call("reassign", "verify", *words, check=1).out)
    call("reassign", "execute", *words, "--replica-alter-log-dirs-throttle", "1000000", "--follow")
    assert (target / f"{topic}-0").exists(), "the command follows the move to its end"
    assert f"Reassignment of replica {topic}-0-0 completed successfully." in call("reassign", "verify", *words).out
