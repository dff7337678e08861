"""A cluster of three broker processes over ZooKeeper, for drills.

Brokers reach each other, and ZooKeeper, through the proxies of `kafkalog cluster`, so that they can be cut off. Clients
reach them directly. ZooKeeper is the server that comes with PySpark.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from broker.cli.cluster.proxies import Proxies, Side
from broker.cli.zookeeper.jars import find_jars, find_java
from broker.cli.zookeeper.server import ZooKeeperServer
from peers.process import free_port
from tests.support.broker_cluster import DEADLINE_S, IDS, BrokerCluster
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

SESSION_MS = 4000
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


class DrilledCluster(BrokerCluster):
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
    def zookeeper(self) -> str:
        """Return ZooKeeper's own address, behind the proxies."""
        return f"127.0.0.1:{self._zookeeper_port}"

    def address(self, broker: int) -> str:
        return self.brokers[broker].address

    def replicas(self, broker: int, topic: str, index: int) -> Iterable[Path]:
        # In whichever of its log directories it is.
        return self.brokers[broker].directory.glob(f"*/{topic}-{index}")

    def leader(self, topic: str, index: int, of: int) -> int:
        """Return the leader of a partition as a broker describes it, or -1."""
        found = self.partitions(topic, of).get(index)
        return -1 if found is None else found.leader_id

    def wait_led_by_others(self, topic: str, victim: int) -> None:
        """Wait until the other brokers agree that they lead all partitions of a topic."""
        rest = [number for number in IDS if number != victim]

        def holds() -> bool:
            return all(
                bool(found) and all(each.leader_id in rest for each in found.values())
                for found in (self.partitions(topic, number) for number in rest)
            )

        wait_until(holds, f"others than {victim} lead {topic}", DEADLINE_S)


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
