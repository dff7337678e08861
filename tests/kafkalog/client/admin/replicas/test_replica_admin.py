"""Tests of elections, reassignments and log directories, against a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.admin.replicas.replica_admin import ElectionType, ReplicaAdmin, ReplicaOnBroker
from kafkalog.client.config import ClientConfig
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ElectionNotNeededError,
    InvalidReplicaAssignmentError,
    KafkaError,
    LogDirNotFoundError,
    NoReassignmentInProgressError,
    UnknownTopicOrPartitionError,
)
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import batch, produce


@pytest.fixture
def replicas(make_config: Callable[..., ClientConfig]) -> Iterator[ReplicaAdmin]:
    with ReplicaAdmin(make_config()) as opened:
        yield opened


def kinds(outcomes: dict[TopicPartition, KafkaError | None]) -> dict[TopicPartition, type | None]:
    return {tp: None if error is None else type(error) for tp, error in outcomes.items()}


def test_elections(replicas: ReplicaAdmin, new_topic: Callable[..., str]) -> None:
    first, second = (TopicPartition(new_topic(2), index) for index in range(2))
    unknown = TopicPartition("there-is-no-such-topic", 0)
    for kind in ElectionType:
        assert kinds(replicas.elect_leaders([first, second, unknown], kind)) == {
            first: ElectionNotNeededError,
            second: ElectionNotNeededError,
            unknown: UnknownTopicOrPartitionError,
        }
        assert replicas.elect_leaders(None, kind) == {}
    assert replicas.elect_leaders([]) == {}


def test_reassignments(replicas: ReplicaAdmin, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    here = next(iter(replicas.cluster.metadata([], refresh=True).brokers))
    tps = [TopicPartition(topic, index) for index in range(3)]
    outcomes = replicas.alter_partition_reassignments({tps[0]: [here], tps[1]: [here, 999], tps[2]: None})
    assert kinds(outcomes) == {
        tps[0]: None,
        tps[1]: InvalidReplicaAssignmentError,
        tps[2]: NoReassignmentInProgressError,
    }
    assert "999" in str(outcomes[tps[1]])
    assert replicas.list_partition_reassignments() == {}
    assert replicas.list_partition_reassignments(tps) == {}
    assert replicas.alter_partition_reassignments({}) == {}


def test_moves_between_log_directories(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    dirs = [str(tmp_path / name) for name in ("one", "two")]
    broker = start_broker({"log.dirs": ",".join(dirs)})
    config = ClientConfig.from_dict({"bootstrap.servers": broker.bootstrap})
    tp = TopicPartition("t", 0)
    with Admin(config) as admin, ReplicaAdmin(config) as replicas, broker.connect() as sock:
        admin.create_topics([NewTopic("t", 1, 1)])
        assert produce(sock, "t", batch([b"x" * 100])).error_code == 0

        def place() -> list[tuple[str, bool]]:
            (found,) = replicas.describe_log_dirs().values()
            return [(path, info.replicas[tp].is_future) for path, info in found.items() if tp in info.replicas]

        ((source, _),) = place()
        (target,) = set(dirs) - {source}
        here, unknown = ReplicaOnBroker(tp, 0), ReplicaOnBroker(TopicPartition("u", 1), 0)
        assert replicas.alter_replica_log_dirs({here: target}) == {here: None}
        wait_until(lambda: place() == [(target, False)], "the partition was moved")
        outcomes = replicas.alter_replica_log_dirs({here: "/no/such/directory", unknown: source})
        assert isinstance(outcomes[here], LogDirNotFoundError)
        assert isinstance(outcomes[unknown], UnknownTopicOrPartitionError)
        info = replicas.describe_log_dirs([0])[0][target]
        assert info.error is None
        assert info.replicas[tp].size > 100
        assert info.replicas[tp].offset_lag == 0
        assert 0 < info.usable_bytes <= info.total_bytes
