"""Test that offsets are kept where kafkalog leads, in a cluster that has brokers of Apache Kafka, too."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.topics.follower import MIRROR_SOURCE
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from peers import require
from peers.brokers import kafka
from tests.broker.member.mixed_cluster import AS_3_9, OURS, MixedCluster, mixed_cluster
from tests.kafkalog.mirror.conftest import Clusters, StartMirror
from tests.kafkalog.mirror.keeping.kept import KEEP, same
from tests.kafkalog.mirror.writing import make, transactions, write
from tests.support.waiting import wait_until
from tests.support.wire import exchange

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def target(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[MixedCluster]:
    require(kafka.missing(kafka.KAFKA_3))
    with mixed_cluster(tmp_path_factory.mktemp("mixed"), AS_3_9) as cluster:
        yield cluster


@pytest.fixture
def clusters(broker_address: str, target: MixedCluster) -> Clusters:
    return Clusters(broker_address, target.bootstrap)


def keep(cluster: MixedCluster, topic: str, alias: str) -> None:
    """Let the topic keep the offsets of a source, by the broker that knows how."""
    config = AlterableConfig(name=MIRROR_SOURCE, config_operation=0, value=alias)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])]
    )
    host, _, port = cluster.address(OURS).rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        (answer,) = exchange(connection, request, 1).responses
    assert not answer.error_code, answer


def test_a_partition_that_apache_kafka_leads_waits_until_kafkalog_does(
    clusters: Clusters,
    target: MixedCluster,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = f"words-{alias}"
    remote = f"{alias}.{topic}"
    make(clusters.source, topic, 2)
    count = transactions(clusters.source, topic, alias, 6)
    target.create(remote, [[OURS, 1], [1, OURS]])
    keep(target, remote, alias)
    write(clusters.source, topic, range(5), 0)
    write(clusters.source, topic, range(5), 1)
    mirror = start_mirror(topic, **KEEP)
    told = f"{remote}-1 of the target: the leader, broker 1, takes no records at the offsets that they state"
    wait_until(lambda: told in caplog.text, "the partition is named")
    assert "Move these partitions to brokers of kafkalog, or use --offsets translate" in caplog.text
    place = TopicPartition(remote, 1)
    with Admin(clusters.client("target")) as admin:
        assert list_offsets(admin.cluster, {place: LATEST})[place].offset == 0
        admin.replicas.alter_partition_reassignments({place: (OURS, 1)})
    target.wait_isr(remote, (OURS, 1), 1)
    target.elect_preferred(remote)
    target.wait_leader(remote, OURS, 1)
    same(clusters, topic, remote, count + 10)
    assert mirror.stop() is None
