"""Run several of our brokers with ZooKeeper. A suite may stop and start them.

Brokers reach each other by a listener of their own, because a suite may advertise proxies to its clients. A suite whose
brokers are containers stops them by `docker compose stop kafka-2`. `plugins/docker` stands for that command in the
suite's PATH. It asks the `Keeper` of this module.
"""

from __future__ import annotations

import os
import socketserver
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from broker.cli.zookeeper.jars import MissingZooKeeperError, find_jars, find_java
from broker.cli.zookeeper.server import ZooKeeperServer
from peers.cache import MissingPeerError
from peers.process import free_port, tail
from tests.support.kafkalog_broker import KafkalogBroker

SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    "inter.broker.listener.name": "BROKERS",
}


class Cluster:
    """Brokers with ids one after the other, the first of which is `broker.id` of the settings, or 0.

    Args:
        directory: for the data and the output of all processes.
        advertised: what the brokers advertise to clients, in their order. Others advertise their own addresses.
    """

    def __init__(self, directory: Path, count: int, settings: Mapping[str, str], advertised: Sequence[str]) -> None:
        self._directory = directory
        port = free_port()
        self._zookeeper_settings = {
            "dataDir": str(directory / "zookeeper"),
            "clientPort": str(port),
            "clientPortAddress": "127.0.0.1",
            "tickTime": "500",
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
        }
        self._listening: list[str] = []
        self._brokers: dict[int, KafkalogBroker] = {}
        first = int(settings.get("broker.id", "0"))
        for number in range(first, first + count):
            own, inner = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
            told = advertised[number - first] if number - first < len(advertised) else own
            mine = {
                "broker.id": str(number),
                "broker.rack": str(number),
                "zookeeper.connect": f"127.0.0.1:{port}",
                "listeners": f"PLAINTEXT://{own},BROKERS://{inner}",
                "advertised.listeners": f"PLAINTEXT://{told},BROKERS://{inner}",
            }
            self._listening.append(own)
            self._brokers[number] = KafkalogBroker(directory / str(number), {**SETTINGS, **settings, **mine})

    @property
    def bootstrap(self) -> str:
        """Return the addresses at which the brokers listen, separated by commas."""
        return ",".join(self._listening)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run all processes for the time of the block.

        Raises:
            MissingPeerError: ZooKeeper cannot run here.
        """
        try:
            java, jars = find_java(), find_jars()
        except MissingZooKeeperError as error:
            raise MissingPeerError(str(error)) from error
        self._directory.mkdir(parents=True, exist_ok=True)
        log = self._directory / "zookeeper.log"
        with ExitStack() as stack:
            with log.open("ab") as output:
                zookeeper = ZooKeeperServer(java, jars, self._zookeeper_settings, output)
            stack.callback(zookeeper.stop)
            if not zookeeper.wait_until_it_serves():
                raise RuntimeError(f"ZooKeeper does not start:\n{tail(log)}")
            for number, broker in self._brokers.items():
                stack.callback(broker.kill)
                self.start(number)
            yield

    def start(self, number: int) -> None:
        """Start a broker; return when it accepts connections."""
        self._brokers[number].start()

    def stop(self, number: int) -> None:
        """Stop a broker in good order; do nothing if it does not run."""
        if self._brokers[number].running:
            self._brokers[number].stop()


class Keeper:
    """Stop and start brokers for a suite's program, which sends lines such as `stop 2`. Use it as a `with` block.

    Attributes:
        environment: the variables with which `plugins/docker` finds it.
    """

    def __init__(self, cluster: Cluster) -> None:
        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                verb, _, number = self.rfile.readline().decode().strip().partition(" ")
                act = {"start": cluster.start, "stop": cluster.stop}[verb]
                act(int(number))
                self.wfile.write(b"done\n")

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        port = self._server.server_address[1]
        self.environment = {
            "CONFORMANCE_KEEPER": str(port),
            "PATH": f"{Path(__file__).parents[1] / 'plugins'}:{os.environ['PATH']}",
        }
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
