"""`kafkalog topics --zookeeper`, with the options of Kafka 0.8's tool and the commands of its guide."""

from __future__ import annotations

import uuid

import pytest

from tests.support.command import call
from tests.support.member import MemberCluster


@pytest.fixture
def name() -> str:
    return f"topics-{uuid.uuid4().hex[:10]}"


def topics(cluster: MemberCluster, *words: str, chroot: str = "") -> list[str]:
    return call("topics", "--zookeeper", cluster.zookeeper + chroot, *words).out


def configs(cluster: MemberCluster, name: str) -> str:
    """Return the settings in the line of a topic."""
    return topics(cluster, "--describe", "--topic", name)[0].rpartition("Configs: ")[2]


def test_settings_are_set_and_deleted_as_the_guide_does(over_zookeeper: MemberCluster, name: str) -> None:
    created = topics(over_zookeeper, "--create", "--topic", name, "--partitions", "1", "--replication-factor", "1",
                     "--config", "max.message.bytes=64000", "--config", "flush.messages=1")  # fmt: skip
    assert created == [f"Created topic {name}."]
    topics(over_zookeeper, "--alter", "--topic", name, "--config", "max.message.bytes=128000")
    assert set(configs(over_zookeeper, name).split(",")) == {"max.message.bytes=128000", "flush.messages=1"}
    topics(over_zookeeper, "--alter", "--topic", name, "--deleteConfig", "max.message.bytes")
    assert configs(over_zookeeper, name) == "flush.messages=1"
    topics(over_zookeeper, "--alter", "--topic", name, "--delete-config", "flush.messages")
    assert configs(over_zookeeper, name) == ""


def test_replicas_are_assigned(over_zookeeper: MemberCluster, name: str) -> None:
    topics(over_zookeeper, "--create", "--topic", name, "--replica-assignment", "1,1,1")
    shown = [line.split("\t")[2:5] for line in topics(over_zookeeper, "--describe", "--topic", name)[1:]]
    assert shown == [[f"Partition: {number}", "Leader: 1", "Replicas: 1"] for number in range(3)]
    topics(over_zookeeper, "--alter", "--topic", name, "--partitions", "4", "--replica-assignment", "1,1,1,1")
    assert len(topics(over_zookeeper, "--describe", "--topic", name)) == 5


def test_filters_of_a_description(over_zookeeper: MemberCluster, name: str) -> None:
    plain, special = f"{name}-plain", f"{name}-special"
    topics(over_zookeeper, "--create", "--topic", plain, "--partitions", "1", "--replication-factor", "1")
    topics(over_zookeeper, "--create", "--topic", special, "--partitions", "1", "--replication-factor", "1",
           "--config", "min.insync.replicas=2")  # fmt: skip

    def shown(option: str) -> list[str]:
        found = topics(over_zookeeper, "--describe", option, "--topic", f"{name}.*")
        return [line.strip().split("\t")[0].removeprefix("Topic: ") for line in found]

    assert shown("--topics-with-overrides") == [special]
    assert shown("--under-min-isr-partitions") == [special]
    assert shown("--at-min-isr-partitions") == [plain]
    assert shown("--under-replicated-partitions") == []
    assert shown("--unavailable-partitions") == []


def test_a_cluster_below_a_chroot(over_zookeeper: MemberCluster, name: str) -> None:
    chroot = f"/{name}"
    registration, _ = over_zookeeper.nodes.get("/brokers/ids/1")
    over_zookeeper.nodes.create(f"{chroot}/brokers/ids/1", registration, makepath=True)
    topics(over_zookeeper, "--create", "--topic", name, "--partitions", "2", "--replication-factor", "1", chroot=chroot)
    assert topics(over_zookeeper, "--list", "--topic", name, chroot=chroot) == [name]
    nowhere = call("topics", "--zookeeper", f"{over_zookeeper.zookeeper}{chroot}-other", "--list", check=1)
    assert nowhere.out == []
    assert "Traceback" not in nowhere.err
