"""Test that offsets are kept in a cluster with followers while the leaders there are killed, and in mixed clusters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition
from peers import require
from peers.toolchains import java
from tests.crash.cluster.drilled import DrilledCluster, drilled_cluster
from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, Mirror, read_all, settings_of
from tests.kafkalog.mirror.keeping.kept import KEEP, located
from tests.kafkalog.mirror.writing import PARTITIONS, Writer, make
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def target(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrilledCluster]:
    require(java.missing())
    with drilled_cluster(tmp_path_factory.mktemp("target")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def source(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    with KafkalogBroker(tmp_path_factory.mktemp("source"), AT_ONCE) as broker:
        yield broker


@pytest.fixture
def clusters(source: KafkalogBroker, target: DrilledCluster) -> Clusters:
    return Clusters(source.bootstrap, target.bootstrap)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [2, pytest.param(12, marks=pytest.mark.exhaustive)])
def test_leaders_are_killed(clusters: Clusters, target: DrilledCluster, alias: str, kills: int) -> None:
    topic = f"drill-{alias}"
    remote = f"{alias}.{topic}"
    make(clusters.source, topic, PARTITIONS)
    settings = settings_of(clusters, alias, topic, reverse=False, **KEEP)
    partitions = [TopicPartition(remote, number) for number in range(PARTITIONS)]

    def grow(admin: Admin) -> None:
        """Wait until each partition of the target has got records."""
        before = list_offsets(admin.cluster, dict.fromkeys(partitions, LATEST))

        def has_grown() -> bool:
            ends = list_offsets(admin.cluster, dict.fromkeys(partitions, LATEST))
            return all(ends[tp].offset > before[tp].offset for tp in partitions)

        wait_until(has_grown, "the mirror writes to all partitions")

    writer = Writer(clusters.source, topic)
    mirror = Mirror(settings)
    try:
        with Admin(clusters.client("target")) as admin:
            wait_until(lambda: remote in admin.list_topics(), "the topic is created")
            for number in range(kills):
                grow(admin)
                of = next(iter(target.brokers))
                victim = target.leader(remote, number % PARTITIONS, of)
                target.kill(victim)
                target.wait_led_by_others(remote, victim)
                grow(admin)
                target.start(victim)
                target.wait_alive()
                target.wait_whole(remote)
        count = writer.stop()
        found = located(read_all(clusters.target, remote, count))
    finally:
        writer.stop()
        failure = mirror.stop()
    assert failure is None
    assert found == located(read_all(clusters.source, topic, count))
    for number in range(PARTITIONS):
        target.wait_equal(remote, number, target.brokers)
