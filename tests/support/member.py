"""A broker that is a member of a cluster of its own, over a ZooKeeper from PySpark's jars."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafkalog.client import Producer
from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.config import ClientConfig
from peers import require
from peers.toolchains import java
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

READY = "ZooKeeper is accepting connections on "
SETTINGS = {
    "broker.id": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class MemberCluster:
    """A ZooKeeper and a broker.

    Attributes:
        zookeeper: the address of ZooKeeper.
        nodes: a session with it, for tests to look.
    """

    def __init__(self, zookeeper: str, broker: KafkalogBroker, nodes: KazooClient) -> None:
        self.zookeeper = zookeeper
        self.broker = broker
        self.nodes = nodes

    @property
    def bootstrap(self) -> str:
        return self.broker.bootstrap

    def is_known(self) -> bool:
        """Return whether the broker has heard of itself from the controller."""
        with Admin(ClientConfig.from_dict({"bootstrap.servers": self.bootstrap})) as admin:
            return bool(admin.describe_cluster().brokers)

    def new_topic(self, partitions: int = 1) -> str:
        """Create a topic that no other test uses."""
        name = f"topic-{uuid.uuid4().hex[:12]}"
        self.make_topic(name, partitions)
        return name

    def make_topic(self, name: str, partitions: int) -> None:
        with Admin(ClientConfig.from_dict({"bootstrap.servers": self.bootstrap})) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])

    def write(self, topic: str, partitions: int, first: int, count: int) -> None:
        """Write numbers to the partitions in turn, as text."""
        with Producer({"bootstrap.servers": self.bootstrap}) as producer:
            for number in range(first, first + count):
                producer.send(topic, value=b"%d" % number, partition=number % partitions)
            producer.flush()

    def data(self, path: str) -> str | None:
        """Return what a node holds; None where there is none."""
        try:
            return str((self.nodes.get(path)[0] or b"").decode())
        except NoNodeError:
            return None

    def names(self, path: str) -> list[str]:
        try:
            return sorted(self.nodes.get_children(path))
        except NoNodeError:
            return []

    def offsets(self, group: str, topic: str) -> dict[int, int]:
        """Return the offsets of a group in ZooKeeper."""
        path = f"/consumers/{group}/offsets/{topic}"
        return {int(name): int(self.data(f"{path}/{name}") or -1) for name in self.names(path)}

    def owners(self, group: str, topic: str) -> dict[int, str]:
        """Return the streams that own a topic's partitions."""
        path = f"/consumers/{group}/owners/{topic}"
        return {int(name): self.data(f"{path}/{name}") or "" for name in self.names(path)}


@contextmanager
def zookeeper_process(directory: Path, **settings: str) -> Iterator[str]:
    """Run ZooKeeper as `kafkalog zookeeper start` does, with more settings; give its address."""
    require(java.missing())
    settings = {"dataDir": str(directory), "clientPort": "0", "tickTime": "500", **settings}
    words = [word for key, value in settings.items() for word in ("--override", f"{key}={value}")]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkalog.cli.main", "zookeeper", "start", *words], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith(READY), line
        yield line.removeprefix(READY).strip()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def member_cluster(directory: Path) -> Iterator[MemberCluster]:
    """Run the cluster; all processes end with the block."""
    with zookeeper_process(directory / "zookeeper") as address:
        settings = {**SETTINGS, "zookeeper.connect": address, "zookeeper.session.timeout.ms": "6000"}
        with KafkalogBroker(directory / "broker", settings) as broker:
            nodes = KazooClient(address)
            nodes.start(60)
            try:
                cluster = MemberCluster(address, broker, nodes)
                wait_until(cluster.is_known, "the broker knows that it lives")
                yield cluster
            finally:
                nodes.stop()
                nodes.close()
