"""Test that brokers of both sides in one cluster, and the tools of both, have the same access control lists."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import partial

import pytest

from kafkalog.protocol.acls import AclOperation, AclPatternType, AclResourceType
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kafkalog.protocol.messages.produce import ProduceRequest
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka_tools import KafkaTools
from tests.broker.serving import RECORDS
from tests.foreign.admin.authorized import ANONYMOUS, AUTHORIZER, AWAY, HOME, Peer, Shared, acl, shared_cluster
from tests.support.command import call
from tests.support.waiting import wait_until
from tests.support.wire import exchange, produce_request

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

ACLS = "kafka.admin.AclCommand"
THEIRS, OURS = 1, 2


@pytest.fixture(scope="module")
def cluster(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    require(kafka.missing(kafka.KAFKA_3))
    with shared_cluster(tmp_path_factory.mktemp("shared")) as running:
        yield running


@pytest.fixture(scope="module")
def peers(cluster: Shared) -> Iterator[dict[int, Peer]]:
    found = {THEIRS: Peer(cluster.theirs.bootstrap), OURS: Peer(cluster.ours.bootstrap)}
    yield found
    for each in found.values():
        each.close()


@pytest.fixture(scope="module")
def tools(foreign_programs: None) -> Iterator[KafkaTools]:
    with KafkaTools(kafka.KAFKA_3) as running:
        yield running


def is_told(peer: Peer, topic: str) -> bool:
    """Return whether a broker tells a client from AWAY whether a topic exists."""
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    code = peer.ask(asked, 9).topics[0].error_code
    assert code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return bool(code != ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def wait_told(peers: dict[int, Peer], topic: str, told: bool) -> None:
    for number, peer in peers.items():
        wait_until(lambda: is_told(peer, topic) is told, f"broker {number} has the entries of {topic}")  # noqa: B023


@pytest.mark.parametrize("writer", [THEIRS, OURS])
@pytest.mark.parametrize("pattern_type", [AclPatternType.LITERAL, AclPatternType.PREFIXED])
def test_what_one_broker_is_told_all_decide_by(
    peers: dict[int, Peer], writer: int, pattern_type: AclPatternType
) -> None:
    name = f"told-{writer}-{pattern_type.name}"
    wait_told(peers, name, False)
    peers[writer].set_acls([acl(AclResourceType.TOPIC, name, AclOperation.READ, AWAY, pattern_type=pattern_type)])
    assert is_told(peers[writer], name), "in force before the answer"
    wait_told(peers, name, True)
    other = peers[THEIRS if writer == OURS else OURS]
    other.set_acls([])
    assert not is_told(other, name)
    wait_told(peers, name, False)


def listed(lines: list[str], topic: str) -> set[str]:
    """Return the entries that Kafka's tool lists."""
    assert any(f"name={topic}," in line for line in lines), lines
    return {line.strip() for line in lines if line.strip().startswith("(principal=")}


def test_kafkas_tool_writes_into_zookeeper_and_brokers_of_both_sides_follow(
    cluster: Shared, peers: dict[int, Peer], tools: KafkaTools
) -> None:
    direct = ["--authorizer", AUTHORIZER, "--authorizer-properties", f"zookeeper.connect={cluster.zookeeper}"]
    for pattern in ("literal", "prefixed"):
        words = ["--topic", f"direct-{pattern}", "--resource-pattern-type", pattern]
        who = ["--allow-principal", ANONYMOUS, "--allow-host", AWAY, "--operation", "Read"]
        tools.run(ACLS, *direct, "--add", *words, *who)
        wait_told(peers, f"direct-{pattern}", True)
        # What our broker writes, the tool reads.
        peers[OURS].administer(_creation(f"direct-{pattern}", pattern), 2)
        found = listed(tools.run(ACLS, *direct, "--list", *words), f"direct-{pattern}")
        assert found == {
            f"(principal={ANONYMOUS}, host={AWAY}, operation=READ, permissionType=ALLOW)",
            "(principal=User:of-ours, host=*, operation=WRITE, permissionType=DENY)",
        }
        tools.run(ACLS, *direct, "--remove", "--force", *words)
        wait_told(peers, f"direct-{pattern}", False)


def _creation(topic: str, pattern: str) -> object:
    from kafkalog.protocol.acls import AclPermission
    from kafkalog.protocol.messages.create_acls import CreateAclsRequest

    kind = AclPatternType[pattern.upper()]
    entry = acl(AclResourceType.TOPIC, topic, AclOperation.WRITE, "*", AclPermission.DENY, kind, "User:of-ours")
    return CreateAclsRequest(creations=[entry])


def test_both_tools_say_the_same_of_both_brokers(cluster: Shared, peers: dict[int, Peer], tools: KafkaTools) -> None:
    servers = {THEIRS: cluster.theirs.bootstrap, OURS: cluster.ours.bootstrap}
    who = ("--allow-principal", "User:ann", "--topic", "tooled")
    tools.run(ACLS, "--bootstrap-server", servers[OURS], "--add", *who, "--producer", "--idempotent")
    assert call("acls", "add", "--bootstrap-server", servers[OURS], *who, "--consumer", "--group", "g").code == 0
    expected = {
        f"(principal=User:ann, host=*, operation={each}, permissionType=ALLOW)"
        for each in ("READ", "WRITE", "CREATE", "DESCRIBE")
    }
    for server in servers.values():
        words = ("--bootstrap-server", server, "--list", "--topic", "tooled")
        wait_until(lambda: listed(tools.run(ACLS, *words), "tooled") == expected, "Kafka's tool lists all")  # noqa: B023
        ours = call("acls", "list", "--bootstrap-server", server, "--topic", "tooled")
        assert listed(ours.out, "tooled") == expected
    matched = tools.run(
        ACLS, "--bootstrap-server", servers[OURS], "--list", "--topic", "tooled", "--resource-pattern-type", "match"
    )
    assert listed(matched, "tooled") >= expected
    tools.run(ACLS, "--bootstrap-server", servers[OURS], "--remove", "--force", *who, "--producer")
    left = call("acls", "list", "--bootstrap-server", servers[OURS], "--topic", "tooled")
    assert listed(left.out, "tooled") == {"(principal=User:ann, host=*, operation=READ, permissionType=ALLOW)"}


@pytest.mark.parametrize("replicas", [[THEIRS, OURS], [OURS, THEIRS]])
def test_brokers_replicate_by_the_rights_of_their_host(
    cluster: Shared, peers: dict[int, Peer], replicas: list[int]
) -> None:
    name = f"replicated-{replicas[0]}"
    placed = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
    wanted = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1, assignments=placed)
    made = peers[THEIRS].administer(CreateTopicsRequest(topics=[wanted], timeout_ms=30_000), 4)
    assert made.topics[0].error_code == 0
    message: ProduceRequest = produce_request(name, {0: RECORDS}, acks=-1)
    address = cluster.theirs.bootstrap if replicas[0] == THEIRS else cluster.ours.bootstrap
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30, source_address=(HOME, 0)) as wire:

        def is_written() -> bool:
            return bool(exchange(wire, message, 9).responses[0].partition_responses[0].error_code == 0)

        wait_until(is_written, "all replicas have the records")
        in_sync = partial(_in_sync, peers[THEIRS], name)
        wait_until(lambda: in_sync() == set(replicas), "the follower is in sync")


def _in_sync(peer: Peer, topic: str) -> set[int]:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return {each for row in peer.administer(asked, 9).topics[0].partitions for each in row.isr_nodes}
