"""An ensemble of three ZooKeeper servers: a cluster goes on while one of them is away, the leader or a follower.

All nodes of the cluster are below a chroot. The servers are those that come with PySpark.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker.cli.zookeeper.jars import find_jars, find_java
from broker.cli.zookeeper.server import ZooKeeperServer
from peers import require
from peers.process import free_port
from peers.toolchains import java
from tests.crash.cluster.drilled import SETTINGS
from tests.crash.cluster.load import Load, under_load
from tests.support.broker_cluster import IDS, BrokerCluster
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("foreign_programs"), pytest.mark.timeout(900)]

CHROOT = "/clusters/drilled"
ASSIGNMENT = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
ONE_LISTENER = {"listener.security.protocol.map", "inter.broker.listener.name"}


class Ensemble:
    """Three ZooKeeper servers, by their ids.

    Attributes:
        connect: the addresses of all of them, and the chroot.
    """

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self._directory = directory
        self._ports = {number: free_port() for number in IDS}
        self._members = {f"server.{number}": f"127.0.0.1:{free_port()}:{free_port()}" for number in IDS}
        self._running: dict[int, ZooKeeperServer] = {}
        self.connect = ",".join(f"127.0.0.1:{port}" for port in self._ports.values()) + CHROOT
        for number in IDS:
            stack.callback(self.kill, number)

    def start(self, number: int) -> None:
        """Start a server, with the data of before."""
        place = self._directory / f"zookeeper-{number}"
        place.mkdir(parents=True, exist_ok=True)
        (place / "myid").write_text(str(number))
        properties = {
            "dataDir": str(place),
            "clientPort": str(self._ports[number]),
            "clientPortAddress": "127.0.0.1",
            "tickTime": "500",
            "initLimit": "20",
            "syncLimit": "10",
            "admin.enableServer": "false",
            **self._members,
        }
        with (self._directory / f"zookeeper-{number}.log").open("ab") as output:
            self._running[number] = ZooKeeperServer(find_java(), find_jars(), properties, output)

    def kill(self, number: int) -> None:
        """Kill a server by SIGKILL."""
        server = self._running.pop(number, None)
        if server is not None:
            server.process.kill()
            server.process.wait()
            server.stop()

    def mode(self, number: int) -> str:
        """Return what a server says that it is: leader, follower, or nothing."""
        try:
            with socket.create_connection(("127.0.0.1", self._ports[number]), timeout=5) as connection:
                connection.sendall(b"srvr")
                told = b"".join(iter(lambda: connection.recv(4096), b"")).decode()
        except OSError:
            return ""
        return next((line.removeprefix("Mode: ") for line in told.splitlines() if line.startswith("Mode: ")), "")

    def leader(self) -> int:
        """Return the leader when there is one."""
        found: list[int] = []

        def is_led() -> bool:
            found[:] = [number for number in self._running if self.mode(number) == "leader"]
            return len(found) == 1

        wait_until(is_led, "the ensemble has a leader")
        return found[0]

    def wait_joined(self, number: int) -> None:
        """Wait until a server is part of the ensemble."""
        wait_until(lambda: self.mode(number) in ("leader", "follower"), f"server {number} is back")


class EnsembleCluster(BrokerCluster):
    """Three brokers over an ensemble."""

    def __init__(self, directory: Path, stack: ExitStack, connect: str) -> None:
        settings = {key: value for key, value in SETTINGS.items() if key not in ONE_LISTENER}
        self._brokers: dict[int, KafkalogBroker] = {}
        for number in IDS:
            own = {"broker.id": str(number), "zookeeper.connect": connect}
            broker = KafkalogBroker(directory / str(number), {**settings, **own})
            broker.address = f"127.0.0.1:{free_port()}"
            stack.callback(broker.kill)
            self._brokers[number] = broker

    def address(self, broker: int) -> str:
        return self._brokers[broker].address

    def replicas(self, broker: int, topic: str, index: int) -> Iterable[Path]:
        return [self._brokers[broker].log_dir / f"{topic}-{index}"]

    def start(self, number: int) -> None:
        self._brokers[number].start()

    def kill(self, number: int) -> None:
        """Kill a broker by SIGKILL."""
        self._brokers[number].kill()


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def replace_controller(cluster: EnsembleCluster, load: Load) -> None:
    """Kill the controller, and start it again when there is another one."""
    cluster.wait_alive()
    boss = cluster.controller()
    rest = [number for number in IDS if number != boss]
    cluster.kill(boss)
    wait_until(lambda: cluster.controller(rest) in rest, "there is another controller")
    load.wait_acknowledged()
    cluster.start(boss)
    cluster.wait_alive()


def test_a_leader_and_a_follower_of_the_ensemble_go_away(stack: ExitStack, tmp_path: Path) -> None:
    require(java.missing())
    ensemble = Ensemble(tmp_path, stack)
    for number in IDS:
        ensemble.start(number)
    leader = ensemble.leader()
    cluster = EnsembleCluster(tmp_path, stack, ensemble.connect)
    for number in IDS:
        cluster.start(number)
    cluster.wait_alive()
    cluster.create("drill", ASSIGNMENT)
    with under_load(cluster, "drill", 3) as load:
        for victim in (leader, next(number for number in IDS if number != leader)):
            ensemble.kill(victim)
            ensemble.leader()
            load.wait_acknowledged()
            # The controller, and the next one, work by the servers that are left.
            cluster.create(f"without-{victim}", ASSIGNMENT)
            replace_controller(cluster, load)
            cluster.wait_whole("drill")
            ensemble.start(victim)
            ensemble.wait_joined(victim)
