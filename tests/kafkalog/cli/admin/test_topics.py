"""Tests of `kafkalog topics` against a real broker."""

from __future__ import annotations

import os
import re
import uuid
from pathlib import Path

import pytest

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkalog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.command import Ended, call, lines, run
from tests.support.scripted import ScriptedBroker, metadata


@pytest.fixture
def name() -> str:
    return f"topics-{uuid.uuid4().hex[:10]}"


def topics(action: str, broker_address: str, *words: str, check: int = 0) -> list[str]:
    return list(lines(run("topics", action, "--bootstrap-server", broker_address, *words, check=check)))


def failure(action: str, broker_address: str, *words: str, check: int = 1) -> str:
    done = run("topics", action, "--bootstrap-server", broker_address, *words, check=check)
    assert done.stdout == b""
    message = done.stderr.decode()
    assert "Traceback" not in message
    return message


def test_from_creation_to_deletion(broker_address: str, name: str) -> None:
    created = topics(
        "create", broker_address, "--topic", name, "--partitions", "3", "--replication-factor", "1",
        "--config", "retention.ms=123456", "--config", "cleanup.policy=compact,delete",
    )  # fmt: skip
    assert created == [f"Created topic {name}."]
    assert name in topics("list", broker_address)
    assert topics("list", broker_address, "--topic", name[:-1] + ".") == [name]

    first, *rest = topics("describe", broker_address, "--topic", name)
    found = re.fullmatch(
        rf"Topic: {name}\tTopicId: ([\w-]{{22}})\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: (.*)", first
    )
    assert found is not None
    assert {"retention.ms=123456", "cleanup.policy=compact,delete"} <= set(
        re.findall(r"[a-z.]+=[^=]*?(?=,[a-z.]+=|$)", found[2])
    )
    node = rest[0].partition("Leader: ")[2].partition("\t")[0]
    assert rest == [
        f"\tTopic: {name}\tPartition: {n}\tLeader: {node}\tReplicas: {node}\tIsr: {node}\tElr: N/A\tLastKnownElr: N/A"
        for n in range(3)
    ]
    assert topics("describe", broker_address, "--topic-id", found[1])[0] == first

    assert topics("alter", broker_address, "--topic", name, "--partitions", "5") == []
    assert topics("alter", broker_address, "--topic", name, "--config", "retention.ms=77") == []
    assert topics("alter", broker_address, "--topic", name, "--delete-config", "cleanup.policy") == []
    first, *rest = topics("describe", broker_address, "--topic", name)
    assert "PartitionCount: 5" in first
    assert "retention.ms=77" in first
    assert "cleanup.policy" not in first
    assert len(rest) == 5

    assert topics("delete", broker_address, "--topic", name) == []
    assert name not in topics("list", broker_address)


def test_if_exists(broker_address: str, name: str) -> None:
    assert topics("create", broker_address, "--topic", name, "--if-not-exists") != []
    assert topics("create", broker_address, "--topic", name, "--if-not-exists") == []
    assert "already exists" in failure("create", broker_address, "--topic", name)
    assert topics("delete", broker_address, "--topic", name) == []
    for action, *words in (["delete"], ["describe"], ["alter", "--partitions", "3"]):
        assert topics(action, broker_address, "--topic", name, "--if-exists", *words) == []
        message = failure(action, broker_address, "--topic", name, *words)
        assert message.startswith(f"kafkalog: Topic '{name}' does not exist as expected; ")


def test_each_topic_that_fails_is_named(broker_address: str, name: str) -> None:
    for end in "abc":
        call("topics", "create", "--bootstrap-server", broker_address, "--topic", name + end, "--partitions", "1")
    call("topics", "alter", "--bootstrap-server", broker_address, "--topic", f"{name}b", "--partitions", "3")
    alter = "topics", "alter", "--bootstrap-server", broker_address, "--topic", f"{name}.", "--partitions", "1"
    said = call(*alter, check=1).err
    assert all(f"topic {name}{end}: " in said for end in "abc")


def test_one_request_describes_the_configurations_of_many_topics() -> None:
    asked: list[int] = []

    def describe(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        asked.append(len(request.resources))
        results = [
            DescribeConfigsResult(resource_type=each.resource_type, resource_name=each.resource_name)
            for each in reversed(request.resources)
        ]
        return DescribeConfigsResponse(results=results)

    broker = ScriptedBroker({DescribeConfigsRequest: describe})
    topics: dict[tuple[str, int], int] = {(f"t{number:03}", 0): 1 for number in range(300)}
    broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, topics, controller=1)
    with broker:
        out = call("topics", "describe", "--bootstrap-server", broker.address).out
    assert len(out) == 600
    assert asked == [200, 100]


def test_what_the_broker_refuses(broker_address: str, name: str) -> None:
    assert "bad name" in failure("create", broker_address, "--topic", "bad name")
    assert "retention.ms" in failure("create", broker_address, "--topic", name, "--config", "retention.ms=often")
    assert "eplication" in failure("create", broker_address, "--topic", name, "--replication-factor", "99")
    assert topics("create", broker_address, "--topic", name, "--partitions", "2") != []
    assert "partition" in failure("alter", broker_address, "--topic", name, "--partitions", "1").lower()


def test_wrong_usage(broker_address: str, name: str, tmp_path: Path) -> None:
    assert "--topic" in failure("create", broker_address, check=2)
    for option, value in ("--partitions", "0"), ("--partitions", "2147483648"), ("--replication-factor", "32768"):
        assert f"'{value}' is no integer" in failure("create", broker_address, "--topic", name, option, value, check=2)
    assert "which is not UTF-8" in failure("create", broker_address, "--topic", os.fsdecode(b"\xff"), check=2)
    assert "32767" in failure("create", broker_address, "--topic", "t" * 40_000, check=2)
    assert "expected KEY=VALUE" in failure("create", broker_address, "--topic", name, "--config", "x", check=2)
    assert "names a broker twice" in failure(
        "create", broker_address, "--topic", name, "--replica-assignment", "0:0", check=2
    )
    assert "nothing to alter" in failure("alter", broker_address, "--topic", name, check=2)
    assert "--topic [" in failure("describe", broker_address, "--topic", "[", check=2)
    missing = tmp_path / "missing.properties"
    assert str(missing) in failure("list", broker_address, "--command-config", str(missing), check=2)
    assert "no address" in failure("list", "localhost", check=2)


def test_replica_assignment(broker_address: str, name: str) -> None:
    topics("create", broker_address, "--topic", f"{name}-first")
    node = topics("describe", broker_address, "--topic", f"{name}-first")[1].partition("Leader: ")[2].partition("\t")[0]
    topics("create", broker_address, "--topic", name, "--replica-assignment", f"{node},{node}")
    assert len(topics("describe", broker_address, "--topic", name)) == 3
    topics(
        "alter", broker_address, "--topic", name, "--partitions", "3", "--replica-assignment", f"{node},{node},{node}"
    )
    assert len(topics("describe", broker_address, "--topic", name)) == 4


def partly_refused(refused: int, *words: str) -> Ended:
    """Describe the topics a, b and c. The configurations of b may not be read, and c is gone once it is described."""

    def describe(request: MetadataRequest) -> MetadataResponse:
        found = metadata({1: broker}, {(name, 0): 1 for name in "abc"}, controller=1)
        if request.topics:
            found.topics[2].error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return found

    def tell(request: DescribeConfigsRequest) -> DescribeConfigsResponse:
        results = [
            DescribeConfigsResult(
                resource_type=2, resource_name=each.resource_name, error_code=refused * (each.resource_name == "b")
            )
            for each in request.resources
        ]
        return DescribeConfigsResponse(results=results)

    broker = ScriptedBroker({MetadataRequest: describe, DescribeConfigsRequest: tell})
    with broker:
        return call("topics", "describe", "--bootstrap-server", broker.address, *words, check=1)


def test_topics_are_described_beside_others_that_fail() -> None:
    """Kafka's tool ends at the first one (`TopicCommand.describeTopic`)."""
    found = partly_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert [line.split("\t")[0] for line in found.out if line.startswith("Topic")] == ["Topic: a", "Topic: b"]
    assert [line.split("\t")[-1] for line in found.out if line.startswith("Topic")] == ["Configs: ", "Configs: N/A"]
    assert [line.split("\t")[1] for line in found.out if line.startswith("\t")] == ["Topic: a", "Topic: b"]
    assert "topic b: " in found.err
    assert "topic c does not exist" in found.err
    for words in (["--at-min-isr-partitions"], ["--topics-with-overrides"]):
        found = partly_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, *words)
        assert not any("Topic: b" in line for line in found.out), "it is not known"
        assert "topic b: " in found.err
    assert len(partly_refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "--unavailable-partitions").out) == 0


def test_filters(broker_address: str, name: str) -> None:
    topics("create", broker_address, "--topic", name, "--config", "min.insync.replicas=2", "--partitions", "2")
    for words, count in (
        (["--under-replicated-partitions"], 0),
        (["--unavailable-partitions"], 0),
        (["--at-min-isr-partitions"], 0),
        (["--under-min-isr-partitions"], 2),
        (["--under-min-isr-partitions", "--unavailable-partitions"], 2),
        (["--topics-with-overrides"], 1),
    ):
        assert len(topics("describe", broker_address, "--topic", name, *words)) == count, words


def described(listed: ListPartitionReassignmentsResponse | None, *words: str, controller: int = 1) -> list[str]:
    """Describe a topic with two partitions on the brokers 1 and 2, of which 2 is not in sync.

    None stands for a broker that does not know reassignments.
    """

    def describe(request: MetadataRequest) -> MetadataResponse:
        found = metadata({1: broker, 2: broker}, {("words", 0): 1, ("words", 1): 1}, controller=controller)
        for partition in found.topics[0].partitions:
            partition.isr_nodes = [1]
        return found

    configs = DescribeConfigsResponse(results=[DescribeConfigsResult(resource_type=2, resource_name="words")])
    broker = ScriptedBroker({MetadataRequest: describe, DescribeConfigsRequest: lambda request: configs})
    if listed is not None:
        broker.handlers[ListPartitionReassignmentsRequest] = lambda request: listed
    with broker:
        return call("topics", "describe", "--bootstrap-server", broker.address, "--topic", "words", *words).out


def moved(adding: int, removing: int) -> ListPartitionReassignmentsResponse:
    """Return a list with the reassignment of the first partition of `described`."""
    row = OngoingPartitionReassignment(
        partition_index=0, replicas=[1, 2], adding_replicas=[adding], removing_replicas=[removing]
    )
    return ListPartitionReassignmentsResponse(topics=[OngoingTopicReassignment(name="words", partitions=[row])])


REFUSED = ListPartitionReassignmentsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message="No.")


def test_a_partition_that_moves() -> None:
    topic, first, second = described(moved(2, 1))
    assert "\tReplicationFactor: 1\t" in topic
    assert "\tReplicas: 1,2\tIsr: 1\tAdding Replicas: 2\tRemoving Replicas: 1\tElr: N/A\t" in first
    assert "\tReplicas: 1,2\tIsr: 1\tElr: N/A\t" in second
    assert described(moved(2, 1), "--under-replicated-partitions") == [second], "the new replica is not missing"


def test_a_move_that_has_ended_since_it_was_listed() -> None:
    assert "\tReplicationFactor: 2\t" in described(moved(4, 3))[0]
    assert len(described(moved(4, 3), "--under-replicated-partitions")) == 2


@pytest.mark.parametrize(
    ("listed", "controller"), [(None, 1), (REFUSED, 1), (moved(2, 1), -1)], ids=["unknown", "refused", "no controller"]
)
def test_moves_that_brokers_do_not_tell(listed: ListPartitionReassignmentsResponse | None, controller: int) -> None:
    topic, *partitions = described(listed, controller=controller)
    assert "\tReplicationFactor: 2\t" in topic
    assert not any("Adding" in line for line in partitions)
    assert described(listed, "--under-replicated-partitions", controller=controller) == partitions


@pytest.mark.usefixtures("processes")
def test_no_broker_there(name: str, tmp_path: Path) -> None:
    quick = tmp_path / "client.properties"
    quick.write_text("default.api.timeout.ms=300\nretry.backoff.ms=20\nno.such.property=1\n")
    message = failure("list", "127.0.0.1:1", "--command-config", str(quick))
    assert "Connection refused" in message
    assert "no.such.property is not known" in message


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("action", ["create", "list", "describe", "alter", "delete"])
def test_help(action: str) -> None:
    text = run("topics", action, "--help").stdout.decode()
    assert f"kafkalog topics {action} --bootstrap-server localhost:9092" in text
