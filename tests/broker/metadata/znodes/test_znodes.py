"""Test that nodes are written as Apache Kafka writes them and read back, and that damaged ones are refused by name."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.listeners import Endpoint
from broker.metadata.model import BrokerRegistration, LeaderRecoveryState, PartitionState
from broker.metadata.znodes import brokers, cluster, configs, controller, migration, notices, paths, topics
from broker.metadata.znodes.cluster import FeatureNode, ProducerIdBlock
from broker.metadata.znodes.json_node import ZnodeError
from broker.metadata.znodes.topics import Assignment, StateNode, TopicNode
from peers import require
from peers.toolchains import java
from tests.broker.metadata.znodes.make_golden import DATA, write_nodes

PLAIN = Endpoint("PLAINTEXT", "host", 9092)
TLS = Endpoint("CLIENT", "::1", 9093, "SASL_SSL")
TIMESTAMP = 1_700_000_000_000
TOPIC_ID = uuid.UUID(bytes=bytes(range(16)))
ASSIGNMENT = {0: Assignment((1, 2)), 1: Assignment((2, 3, 1), (3,), (1,))}
STATE = StateNode(leader=2, leader_epoch=7, isr=(2, 1), controller_epoch=4, partition_epoch=5)
FEATURE = FeatureNode(1, True, {"f": 3})
EPOCH = 77


@cache
def golden() -> Mapping[str, bytes]:
    lines = DATA.read_text().splitlines()
    return {name: data.encode() for name, data in (line.split("\t") for line in lines)}


def without_time(data: bytes) -> Any:
    found = json.loads(data)
    if isinstance(found, dict):
        found.pop("timestamp", None)
    return found


WRITTEN: dict[str, bytes] = {
    **{
        f"broker-{version}": brokers.encode(
            BrokerRegistration(1, (PLAIN,) if version < 4 else (PLAIN, TLS), "r1"), TIMESTAMP, version
        )
        for version in range(2, 6)
    },
    "broker-tls": brokers.encode(BrokerRegistration(1, (TLS,)), TIMESTAMP),
    "topic": topics.encode_topic(TopicNode(TOPIC_ID, ASSIGNMENT)),
    "topic-without-id": topics.encode_topic(TopicNode(None, ASSIGNMENT)),
    "state-recovered": topics.encode_state(STATE),
    "state-recovering": topics.encode_state(
        StateNode(2, 7, (2, 1), controller_epoch=4, recovery=LeaderRecoveryState.RECOVERING)
    ),
    "config-change": notices.encode_config_change("users/a%20b/clients/c"),
    "isr-change": notices.encode_isr_change([("t", 3)]),
    "log-dir-event": notices.encode_log_dir_event(6),
    "preferred-election": notices.encode_preferred_election([("t", 3)]),
    "reassignment": notices.encode_reassignment({("t", 3): (4, 5)}),
    "controller": controller.encode(3, TIMESTAMP),
    "controller-epoch": controller.encode_epoch(12),
    "config": configs.encode({"retention.ms": "1000"}),
    "cluster-id": cluster.encode_id("AAECAwQFBgcICQoLDA0ODw"),
    "producer-ids": cluster.encode_block(ProducerIdBlock(2, 3000, 3999)),
    "feature-1": cluster.encode_feature(FEATURE),
    "feature-2": cluster.encode_feature(FeatureNode(2, False, {"f": 3})),
}


def test_every_node_of_kafka_is_written() -> None:
    assert {name for name in golden() if not name.startswith("sanitized ")} == WRITTEN.keys()


@pytest.mark.parametrize("name", WRITTEN)
def test_nodes_are_written_as_kafka_writes_them(name: str) -> None:
    assert without_time(WRITTEN[name]) == without_time(golden()[name])


@pytest.mark.parametrize("name", [name for name in golden() if name.startswith("sanitized ")])
def test_names_are_sanitized_as_by_kafka(name: str) -> None:
    plain = name.removeprefix("sanitized ")
    assert configs.sanitized(plain) == golden()[name].decode()
    assert configs.desanitized(configs.sanitized(plain)) == plain


def test_nodes_of_kafka_are_read() -> None:
    node = golden()
    for version in range(3, 6):
        endpoints = (PLAIN,) if version < 4 else (PLAIN, TLS)
        expected = BrokerRegistration(1, endpoints, "r1", EPOCH)
        assert brokers.decode(1, node[f"broker-{version}"], EPOCH) == expected
    assert brokers.decode(1, node["broker-2"], EPOCH) == BrokerRegistration(1, (PLAIN,), None, EPOCH)
    assert brokers.decode(1, node["broker-tls"], EPOCH).endpoint("CLIENT") == TLS
    assert topics.decode_topic("t", node["topic"]) == TopicNode(TOPIC_ID, ASSIGNMENT)
    assert topics.decode_topic("t", node["topic-without-id"]) == TopicNode(None, ASSIGNMENT)
    assert topics.decode_state("t", 0, node["state-recovered"], 5) == STATE
    assert topics.decode_state("t", 0, node["state-recovering"], 5).recovery is LeaderRecoveryState.RECOVERING
    assert notices.decode_config_change("/c", node["config-change"]) == "users/a%20b/clients/c"
    assert notices.decode_isr_change("/i", node["isr-change"]) == {("t", 3)}
    assert notices.decode_log_dir_event("/l", node["log-dir-event"]) == 6
    assert notices.decode_preferred_election(node["preferred-election"]) == {("t", 3)}
    assert notices.decode_reassignment(node["reassignment"]) == {("t", 3): (4, 5)}
    assert controller.decode(node["controller"]) == 3
    assert controller.decode_epoch(node["controller-epoch"]) == 12
    assert configs.decode("/c", node["config"]) == {"retention.ms": "1000"}
    assert cluster.decode_id(node["cluster-id"]) == "AAECAwQFBgcICQoLDA0ODw"
    assert cluster.decode_block(node["producer-ids"]) == ProducerIdBlock(2, 3000, 3999)
    assert cluster.decode_feature(node["feature-1"]) == FEATURE
    assert cluster.decode_feature(node["feature-2"]) == FeatureNode(2, False, {"f": 3})


def test_nodes_of_older_brokers_are_read() -> None:
    first = b'{"version":1,"host":"old","port":9092,"jmx_port":-1,"timestamp":"1"}'
    assert brokers.decode(1, first, EPOCH).endpoints == (Endpoint("PLAINTEXT", "old", 9092),)
    assert topics.decode_topic("t", b'{"version":1,"partitions":{"0":[1]}}') == TopicNode(None, {0: Assignment((1,))})
    assert notices.decode_config_change("/c", b'{"version":1,"entity_type":"topics","entity_name":"t"}') == "topics/t"
    assert notices.decode_config_change("/c", b'"t"') == "topics/t"
    assert controller.decode(b'{"version":1,"brokerid":4,"timestamp":"1"}') == 4
    assert configs.decode("/config/topics/t", b"") == {}


def test_nodes_of_a_migration_to_kraft_are_read() -> None:
    assert controller.is_kraft(b'{"version":2,"brokerid":3000,"timestamp":"1","kraftControllerEpoch":7}')
    assert not controller.is_kraft(golden()["controller"])
    assert not controller.is_kraft(b'{"version":1,"brokerid":4,"timestamp":"1"}')
    node = '{"version":%d,"kraft_controller_id":%d,"kraft_controller_epoch":1,"kraft_metadata_offset":-1}'
    assert migration.decode((node % (0, 3000)).encode()) == 3000
    assert migration.decode((node % (0, -1)).encode()) == migration.NOT_BEGUN
    with pytest.raises(ZnodeError, match="/migration in ZooKeeper cannot be read: version 1 is not known"):
        migration.decode((node % (1, 3000)).encode())


def test_both_nodes_of_a_partition_are_parted_and_joined() -> None:
    partition = PartitionState((2, 3, 1), (2, 1), 2, 7, 5, 4, (3,), (1,), LeaderRecoveryState.RECOVERING)
    assert topics.joined(*topics.parted(partition)) == partition


def test_a_sequence_number_is_that_of_the_name() -> None:
    assert paths.sequence_number(f"{paths.ISR_CHANGE_PREFIX}0000000012") == 12


READERS: dict[str, Callable[[bytes], object]] = {
    "/brokers/ids/1": lambda data: brokers.decode(1, data, EPOCH),
    "/brokers/topics/t": lambda data: topics.decode_topic("t", data),
    "/brokers/topics/t/partitions/0/state": lambda data: topics.decode_state("t", 0, data, 1),
    "/config/changes/x": lambda data: notices.decode_config_change("/config/changes/x", data),
    "/isr": lambda data: notices.decode_isr_change("/isr", data),
    "/log": lambda data: notices.decode_log_dir_event("/log", data),
    "/admin/preferred_replica_election": notices.decode_preferred_election,
    "/admin/reassign_partitions": notices.decode_reassignment,
    "/controller": controller.decode,
    "/controller_epoch": controller.decode_epoch,
    "/config/topics/t": lambda data: configs.decode("/config/topics/t", data),
    "/cluster/id": cluster.decode_id,
    "/latest_producer_id_block": cluster.decode_block,
    "/feature": cluster.decode_feature,
}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["version", "partitions", "config", "0", "topic", "features"]), inner)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("path", READERS)
@given(data=st.binary(max_size=30) | JSON.map(lambda found: json.dumps(found).encode()))
def test_damaged_nodes_are_refused_by_their_path(path: str, data: bytes) -> None:
    told = path
    try:
        READERS[path](data)
    except ZnodeError as error:
        told = str(error)
    assert path in told


@pytest.mark.parametrize("path", READERS)
def test_nodes_without_what_matters_are_refused(path: str) -> None:
    for data in (b"\xff", b"[]", b'{"version":9,"brokerid":"x","partitions":[1],"config":{"a":1}}'):
        with pytest.raises(ZnodeError, match=path):
            READERS[path](data)


@pytest.mark.usefixtures("foreign_programs")
def test_the_committed_nodes_are_those_of_kafka() -> None:
    require(java.missing())
    made = dict(line.split("\t") for line in write_nodes().splitlines())
    assert made.keys() == golden().keys()
    for name, data in made.items():
        if name.startswith("sanitized "):
            assert data.encode() == golden()[name]
        else:
            assert without_time(data.encode()) == without_time(golden()[name])
