"""A cluster of three broker processes over ZooKeeper, for drills.

Brokers reach each other, and ZooKeeper, through the proxies of `kafkalog cluster`, so that they can be cut off. Clients
reach them directly. ZooKeeper is the server that comes with PySpark.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from confluent_kafka import ElectionType
from confluent_kafka.admin import AdminClient, NewTopic

from broker.cli.cluster.proxies import Proxies, Side
from broker.cli.zookeeper.jars import find_jars, find_java
from broker.cli.zookeeper.server import ZooKeeperServer
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponsePartition
from peers.process import free_port
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import exchange

IDS = (1, 2, 3)
SESSION_MS = 4000
DEADLINE_S = 180.0
SETTINGS = {
    "zookeeper.session.timeout.ms": str(SESSION_MS),
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.backoff.ms": "200",
    # A broker that cannot reach the controller stops all the same, after three of these.
    "replica.socket.timeout.ms": "10000",
    "controlled.shutdown.retry.backoff.ms": "500",
    "auto.leader.rebalance.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "min.insync.replicas": "2",
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": "3",
    "transaction.state.log.min.isr": "2",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


class DrilledCluster:
    """See the module. Topics have three replicas unless they are created with others.

    Attributes:
        brokers: the processes by id.
        proxies: through which brokers are cut off (`Proxies.cut`).
    """

    def __init__(self, directory: Path, stack: ExitStack, settings: Mapping[str, str]) -> None:
        self._directory = directory
        self._settings = {**SETTINGS, **settings}
        self.proxies = Proxies()
        stack.callback(self.proxies.close)
        self._zookeeper_port = free_port()
        self._zookeeper: ZooKeeperServer | None = None
        stack.callback(self.stop_zookeeper)
        self._links: dict[int, int] = {}
        self.brokers: dict[int, KafkalogBroker] = {}
        for number in IDS:
            self._links[number] = self.proxies.add(Side("brokers", number))
            self.brokers[number] = self._broker(number)
            stack.callback(self._end, number)

    def _broker(self, number: int) -> KafkalogBroker:
        to_zookeeper = self.proxies.add(Side("zookeeper", number))
        self.proxies.open(to_zookeeper, self._zookeeper_port)
        made = KafkalogBroker(
            self._directory / str(number),
            {**self._settings, "broker.id": str(number), "zookeeper.connect": f"127.0.0.1:{to_zookeeper}"},
        )
        made.address = f"127.0.0.1:{free_port()}"
        return made

    # -- processes

    def start_zookeeper(self) -> None:
        """Start ZooKeeper at the port of before, with the data of before."""
        properties = {
            "dataDir": str(self._directory / "zookeeper"),
            "clientPort": str(self._zookeeper_port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": "500",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
        }
        with (self._directory / "zookeeper.log").open("ab") as output:
            self._zookeeper = ZooKeeperServer(find_java(), find_jars(), properties, output)
        assert self._zookeeper.wait_until_it_serves(), (self._directory / "zookeeper.log").read_text()

    def stop_zookeeper(self) -> None:
        """Kill ZooKeeper."""
        if self._zookeeper is not None:
            self._zookeeper.process.kill()
            self._zookeeper.process.wait()
            self._zookeeper.stop()
            self._zookeeper = None

    def start(self, number: int) -> None:
        """Start a broker, at the addresses of before, and wait until it accepts connections."""
        broker, port = self.brokers[number], free_port()
        broker.overrides["listeners"] = f"PLAINTEXT://{broker.address},BROKERS://127.0.0.1:{port}"
        broker.overrides["advertised.listeners"] = (
            f"PLAINTEXT://{broker.address},BROKERS://127.0.0.1:{self._links[number]}"
        )
        self.proxies.open(self._links[number], port)
        broker.start()

    def kill(self, number: int) -> None:
        """Kill a broker by SIGKILL."""
        self._end(number)
        self.proxies.shut(self._links[number])

    def _end(self, number: int) -> None:
        if self.brokers[number].running:
            # A process that was paused is killed all the same.
            self.brokers[number].kill()

    def stop(self, number: int) -> None:
        """Stop a broker in good order."""
        assert self.brokers[number].stop() == 0, self.brokers[number].logged()
        self.proxies.shut(self._links[number])

    @contextmanager
    def paused(self, number: int) -> Iterator[None]:
        """Stop a broker's process by SIGSTOP for the time of the block."""
        pid = self.brokers[number].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @contextmanager
    def cut(self, number: int, *kinds: str) -> Iterator[None]:
        """Cut a broker off from `zookeeper`, `brokers` or both for the time of the block."""
        self.proxies.cut(number, kinds)
        try:
            yield
        finally:
            self.proxies.cut(number, ())

    # -- what there is

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

    def metadata(self, number: int) -> MetadataResponse:
        """Return the cluster as a broker describes it; nothing if it does not answer."""
        host, _, port = self.brokers[number].address.rpartition(":")
        with suppress(OSError, EOFError), socket.create_connection((host, int(port)), timeout=5) as connection:
            response: MetadataResponse = exchange(connection, MetadataRequest(topics=None), 9)
            return response
        return MetadataResponse(controller_id=-1)

    def controller(self, of: Collection[int] = IDS) -> int:
        """Return the controller that these brokers agree on, or -1."""
        known = {self.metadata(number).controller_id for number in of}
        return known.pop() if len(known) == 1 else -1

    def partitions(self, topic: str, number: int) -> dict[int, MetadataResponsePartition]:
        """Return a topic's partitions as a broker describes them; none if it does not know the topic."""
        found = [each for each in self.metadata(number).topics if each.name == topic]
        return {each.partition_index: each for topic in found for each in topic.partitions}

    def leader(self, topic: str, index: int, of: int) -> int:
        """Return the leader of a partition as a broker describes it, or -1."""
        found = self.partitions(topic, of).get(index)
        return -1 if found is None else found.leader_id

    def create(self, topic: str, assignment: list[list[int]], config: Mapping[str, str] | None = None) -> None:
        """Create a topic; return when every broker knows its leaders."""
        new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=dict(config or {}))
        admin = self.admin()
        admin.create_topics([new], operation_timeout=30)[topic].result(60)
        self.wait_whole(topic)

    def elect_preferred(self) -> None:
        """Have the first replicas of all partitions lead them."""
        admin = self.admin()
        admin.elect_leaders(ElectionType.PREFERRED).result(60)

    def wait_whole(self, topic: str, among: Iterable[int] = IDS) -> None:
        """Wait until these brokers know that all partitions have leaders and all replicas are in sync."""
        for number in among:
            wait_until(partial(self._is_whole, topic, number), f"{number} knows that {topic} is whole", DEADLINE_S)

    def _is_whole(self, topic: str, number: int) -> bool:
        found = self.partitions(topic, number).values()
        return bool(found) and all(
            each.leader_id > 0 and set(each.isr_nodes) == set(each.replica_nodes) for each in found
        )

    def wait_led_by_others(self, topic: str, victim: int) -> None:
        """Wait until the other brokers agree that they lead all partitions of a topic."""
        rest = [number for number in IDS if number != victim]

        def holds() -> bool:
            return all(
                bool(found) and all(each.leader_id in rest for each in found.values())
                for found in (self.partitions(topic, number) for number in rest)
            )

        wait_until(holds, f"others than {victim} lead {topic}", DEADLINE_S)

    def wait_alive(self) -> None:
        """Wait until each broker knows all of them, and they agree on the controller."""
        wait_until(
            lambda: (
                all({each.node_id for each in self.metadata(number).brokers} == set(IDS) for number in IDS)
                and self.controller() in IDS
            ),
            "all brokers know each other",
            DEADLINE_S,
        )

    # -- the logs

    def log(self, number: int, topic: str, index: int) -> bytes:
        """Return the bytes of a replica's segments, one after the other."""
        # In whichever of its log directories it is.
        files = sorted(self.brokers[number].directory.glob(f"*/{topic}-{index}/*.log"))
        return b"".join(file.read_bytes() for file in files)

    def wait_equal(self, topic: str, index: int, of: Iterable[int]) -> None:
        """Wait until replicas have the same bytes."""
        brokers = list(of)
        wait_until(
            lambda: len({self.log(number, topic, index) for number in brokers}) == 1,
            f"the logs of {topic}-{index} on {brokers} are equal",
            DEADLINE_S,
        )


@contextmanager
def drilled_cluster(directory: Path, settings: Mapping[str, str] | None = None) -> Iterator[DrilledCluster]:
    """Run a cluster, whose processes all end with the block."""
    with ExitStack() as stack:
        cluster = DrilledCluster(directory, stack, settings or {})
        cluster.start_zookeeper()
        for number in IDS:
            cluster.start(number)
        cluster.wait_alive()
        yield cluster
