"""Clusters of three brokers, of kafkalog or of Apache Kafka, each with a ZooKeeper of its own, under one interface."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, TopicMetadata

from benchmarks.peers.brokers import PEERS, end_offsets, stop_when_told
from benchmarks.peers.processes import cpu_seconds, resident_bytes
from benchmarks.recording.findings import OURS
from kafkalog.client.admin import Admin
from kafkalog.client.config import ClientConfig
from kafkalog.client.types import TopicPartition as ClientPartition
from peers.brokers import kafka, probe
from peers.brokers.kafka import ZooKeeperKafka
from peers.brokers.zookeeper import ZooKeeper
from peers.process import Process, free_port
from tests.support.kafkalog_broker import KafkalogBroker

BROKERS = (1, 2, 3)
PEER = f"Kafka {kafka.KAFKA_3}"
"""The newest line of Apache Kafka that runs with ZooKeeper."""
CLUSTERS = (OURS, PEER)
NO_CONTROLLER = -1
_DEADLINE_S = 180.0
_POLL_S, _POLL_MANY_S = 0.02, 0.2
"""The pauses between two questions; the second one where an answer is much work for a broker."""


class Cluster:
    """Three brokers of one kind with the defaults of their distribution, but three copies of what they keep themselves.

    Args:
        name: `kafkalog`, or a release of Apache Kafka as in `benchmarks.peers.brokers.PEERS`.
        address: of ZooKeeper.
        directory: where the brokers keep their data.
        config: settings of every broker.

    Attributes:
        bootstrap: the addresses of all brokers.
    """

    def __init__(self, name: str, address: str, directory: Path, config: Mapping[str, str]) -> None:
        self.name = name
        self.directory = directory
        self._zookeeper = address
        self._config = {"offsets.topic.replication.factor": "3", "min.insync.replicas": "2", **config}
        self._addresses = {number: f"127.0.0.1:{free_port()}" for number in BROKERS}
        self._processes: dict[int, Process] = {}
        self.bootstrap = ",".join(self._addresses.values())

    def log_dir(self, number: int) -> Path:
        """Return the directory with a broker's segments."""
        return self.directory / str(number) / ("log" if self.name == OURS else "data")

    def start(self, number: int) -> float:
        """Start a broker; return the seconds until it answers."""
        home = self.directory / str(number)
        home.mkdir(parents=True, exist_ok=True)
        own = {**self._config, "broker.id": str(number), "zookeeper.connect": self._zookeeper}
        if self.name == OURS:
            broker = KafkalogBroker(home, own)
            broker.address = self._addresses[number]
            command, output = broker.command(), home / "broker.out"
            began = time.perf_counter()
            process = Process(command, output)
        else:
            address = {"listeners": f"PLAINTEXT://{self._addresses[number]}"}
            peer = ZooKeeperKafka(PEERS[self.name], self._zookeeper, directory=home, config={**own, **address})
            peer.prepare()
            began = time.perf_counter()
            peer.exec()
            process = peer.process
        self._processes[number] = process
        return probe.wait_for_answer(self._addresses[number], _DEADLINE_S) - began

    def end(self, number: int, how: signal.Signals) -> None:
        """Send a signal to a broker; do not wait."""
        os.kill(self._processes[number].pid, how)

    def is_running(self, number: int) -> bool:
        """Return whether a broker's process runs."""
        return self._processes[number].running

    def gone(self, number: int) -> None:
        """Wait until a broker's process has ended."""
        self._processes[number].wait(_DEADLINE_S)

    def close(self) -> None:
        """Kill what runs."""
        for process in self._processes.values():
            process.kill()

    def cpu_seconds(self, *, without: int | None = None) -> float:
        """Return the CPU time so far of all brokers but `without`, and of their children."""
        return sum(map(cpu_seconds, self._pids(without)))

    def resident_bytes(self) -> int:
        """Return the resident memory of all brokers and their children."""
        return sum(map(resident_bytes, self._pids()))

    def _pids(self, without: int | None = None) -> list[int]:
        return [each.pid for number, each in self._processes.items() if each.running and number != without]

    def admin(self, *, without: int | None = None) -> AdminClient:
        """Make an admin client that begins with any broker but `without`."""
        bootstrap = ",".join(address for number, address in self._addresses.items() if number != without)
        return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2, "reconnect.backoff.max.ms": 200})

    def create_topic(self, topic: str, partitions: int, replicas: int = len(BROKERS)) -> None:
        """Create a topic; wait until all its replicas are in sync."""
        admin = self.admin()
        own = {"min.insync.replicas": str(min(replicas, 2))}
        admin.create_topics([NewTopic(topic, partitions, replicas, config=own)])[topic].result(_DEADLINE_S)
        self.wait_for(topic, lambda found: len(found.partitions) == partitions and _in_sync(found), admin)

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        admin = self.admin()
        admin.delete_topics([topic])[topic].result(_DEADLINE_S)

    def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """Return the partitions' end offsets."""
        return end_offsets(self.admin(), topic, partitions)

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of a partition."""
        return int(self.admin().list_topics(topic, timeout=30).topics[topic].partitions[partition].leader)

    def controller(self) -> int:
        """Return the controller's id."""
        return int(self.admin().list_topics(timeout=30).controller_id)

    def wait_for_controller(self, former: int) -> None:
        """Poll the other brokers until each tells of another controller than `former`."""
        end = time.monotonic() + _DEADLINE_S
        for number, address in self._addresses.items():
            while number != former:
                # A broker that is busy answers late.
                with suppress(OSError):
                    if probe.controller(address, _DEADLINE_S) not in (former, NO_CONTROLLER):
                        break
                if time.monotonic() > end:
                    raise TimeoutError(f"{self.name}: broker {number} tells that broker {former} is the controller")
                time.sleep(_POLL_S)

    def wait_without(self, number: int, topics: Sequence[str]) -> None:
        """Poll topic by topic until all partitions are led, and none by this broker."""
        admin, others = self.admin(without=number), set(BROKERS) - {number}
        for topic in topics:
            self.wait_for(
                topic, lambda found: {each.leader for each in found.partitions.values()} <= others, admin, _POLL_MANY_S
            )

    def prefer_another(self, topic: str) -> None:
        """Let another replica of partition 0 be the preferred leader; it does not lead yet."""
        leader = self.leader(topic)
        replicas = [*(number for number in BROKERS if number != leader), leader]
        with Admin(ClientConfig.from_dict({"bootstrap.servers": self.bootstrap})) as admin:
            partition = ClientPartition(topic, 0)
            [failure] = admin.replicas.alter_partition_reassignments({partition: replicas}).values()
        if failure is not None:
            raise failure

    def elect_preferred(self, topic: str, partitions: int) -> None:
        """Have each partition led by the first of its replicas."""
        admin = self.admin()
        wanted = [TopicPartition(topic, number) for number in range(partitions)]
        admin.elect_leaders(ElectionType.PREFERRED, wanted).result(_DEADLINE_S)
        self.wait_for(
            topic, lambda found: all(each.leader == each.replicas[0] for each in found.partitions.values()), admin
        )

    def wait_in_sync(self, topic: str) -> None:
        """Wait until all replicas of all partitions are in sync."""
        self.wait_for(topic, _in_sync)

    def wait_for(
        self,
        topic: str,
        is_so: Callable[[TopicMetadata], bool],
        admin: AdminClient | None = None,
        pause_s: float = _POLL_S,
    ) -> None:
        """Poll a topic's metadata until it is as wanted."""
        admin = admin or self.admin()
        end = time.monotonic() + _DEADLINE_S
        while not is_so(admin.list_topics(topic, timeout=30).topics[topic]):
            if time.monotonic() > end:
                raise TimeoutError(f"{self.name}: {topic} does not become as wanted")
            time.sleep(pause_s)


def _in_sync(topic: TopicMetadata) -> bool:
    return all(len(each.isrs) == len(each.replicas) and each.leader > 0 for each in topic.partitions.values())


@contextmanager
def running(names: Sequence[str], directory: Path | None, config: Mapping[str, str]) -> Iterator[list[Cluster]]:
    """Start the named clusters; stop them at the end. `config` has settings of our brokers."""
    stop_when_told()
    root = Path(tempfile.mkdtemp(prefix="kafkalog-bench-", dir=directory))
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, root, ignore_errors=True)
        clusters = []
        for name in names:
            home = root / name.replace(" ", "-")
            zookeeper = stack.enter_context(ZooKeeper(kafka.KAFKA_3, home / "zookeeper"))
            zookeeper.wait()
            cluster = Cluster(name, zookeeper.address, home, config if name == OURS else {})
            stack.callback(cluster.close)
            for number in BROKERS:
                cluster.start(number)
            clusters.append(cluster)
        yield clusters
