"""Runs the processes of a cluster: ZooKeeper and the brokers, as children of `kafkalog cluster start`.

A broker that ends stays down until it is asked for (`description.start_request`), so that failures can be practised. On
Linux the brokers end with the supervisor, even if that is killed.

Brokers reach each other, and ZooKeeper, through `proxies` in this process, so that one of them can be cut off. Clients
reach them directly.
"""

from __future__ import annotations

import math
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from broker.cli.cluster.description import (
    KINDS,
    NOT_RUNNING,
    BrokerEntry,
    Description,
    cut_request,
    is_ready,
    log_file,
    read_cut_request,
    remembered_ports,
    start_request,
)
from broker.cli.cluster.proxies import Proxies, Side
from broker.cli.zookeeper.server import ZooKeeperServer, addresses
from broker.net.sockets.free_ports import free_ports
from kafkalog.cli.shared.child import end_with_parent

POLL_S = 0.1
READY_S = 120.0
"""Seconds until a process that accepts no connections is taken for failed."""
STOP_S = 60.0
"""Seconds until brokers that do not stop are killed."""
REPLICAS = 3
"""The most replicas of topics whose factor nobody gives."""

Tell = Callable[[str], None]


class ClusterFailedError(Exception):
    """The cluster cannot come up; the message names the process and the file with its messages, or the remedy."""


def broker_settings(
    entry: BrokerEntry, zookeeper: str, directory: Path, brokers: int, link_port: int
) -> dict[str, str]:
    """Return the settings of one broker: as many replicas as the cluster allows, up to three.

    Args:
        entry: The broker.
        zookeeper: Where it reaches ZooKeeper.
        directory: The cluster's directory.
        brokers: How many brokers there are.
        link_port: The port of its listener for other brokers, behind the proxy.
    """
    replicas = min(REPLICAS, brokers)
    majority = str(replicas // 2 + 1)
    return {
        "broker.id": str(entry.broker_id),
        "zookeeper.connect": zookeeper,
        # ZooKeeper notices a silent process after this time; a process that has died is noticed sooner.
        "zookeeper.session.timeout.ms": "6000",
        # When all brokers stop at once, the last ones find no controller: five seconds a try would be long.
        "controlled.shutdown.retry.backoff.ms": "500",
        "listeners": f"PLAINTEXT://127.0.0.1:{entry.port},BROKERS://127.0.0.1:{link_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{entry.port},BROKERS://127.0.0.1:{entry.link_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
        "inter.broker.listener.name": "BROKERS",
        "log.dirs": str(directory / f"broker-{entry.broker_id}"),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": majority,
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": majority,
    }


def choose_ports(base: int, count: int) -> list[int]:
    """Return `count` ports from `base` on, or free ones if it is 0.

    Raises:
        ClusterFailedError: one of them cannot be used.
    """
    if not base:
        return free_ports(count)
    with ExitStack() as probes:
        for port in range(base, base + count):
            try:
                probes.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError as error:
                raise ClusterFailedError(
                    f"port {port} cannot be used: {error.strerror}. Name other ports by --base-port; 0 takes free ones"
                ) from None
    return list(range(base, base + count))


class Supervisor:
    """Starts, watches and stops the processes. Whoever makes one holds the lock on the directory (`description.held`).

    Args:
        directory: The cluster's directory, which exists.
        ports: The brokers' ports; their ids count from 1.
        java: The path of `java`.
        jars: ZooKeeper's class path.
        zookeeper: ZooKeeper's properties.
        overrides: Settings of all brokers that win over `broker_settings`.
        tell: Prints a line for the user.
        ready_s: How long each process may take until it accepts connections.
    """

    def __init__(
        self,
        directory: Path,
        ports: Sequence[int],
        java: str,
        jars: list[Path],
        zookeeper: Mapping[str, str],
        overrides: Mapping[str, str],
        tell: Tell,
        ready_s: float = READY_S,
    ) -> None:
        self._directory = directory
        self._overrides = dict(overrides)
        self._tell = tell
        self._ready_s = ready_s
        ((host, port),) = addresses(zookeeper)
        self._proxies = Proxies()
        self._to_zookeeper: dict[int, int] = {}
        """The port at which each broker reaches ZooKeeper."""
        self._heal_at: dict[int, float] = {}
        entries = self._connected([BrokerEntry(index, port) for index, port in enumerate(ports, 1)], port)
        self.description = Description(0, f"{host}:{port}", entries)
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._logged: dict[int, int] = {}
        """The place in each broker's log where the messages of its present process begin."""
        try:
            with self._log("ZooKeeper").open("ab") as output:
                self._zookeeper = ZooKeeperServer(java, jars, zookeeper, output, apart=True)
        except BaseException:
            self._proxies.close()
            raise

    def start(self, supervisor: int) -> None:
        """Start everything; return when all brokers accept connections.

        Raises:
            ClusterFailedError: a process has ended before that, or takes too long.
        """
        self.description.supervisor = supervisor
        for entry in self.description.brokers:
            start_request(self._directory, entry.broker_id).unlink(missing_ok=True)
            cut_request(self._directory, entry.broker_id).unlink(missing_ok=True)
        self.description.save(self._directory)
        self._wait_for("ZooKeeper", self._zookeeper.process, self._zookeeper.serves)
        for entry in self.description.brokers:
            self._launch(entry)
        self.description.save(self._directory)
        for entry in self.description.brokers:
            self._wait_for_broker(entry)

    def watch(self) -> None:
        """Tell of brokers that end, and start those that are asked for; return if ZooKeeper ends."""
        while self._zookeeper.process.poll() is None:
            for entry in self.description.brokers:
                self._look_at(entry)
            time.sleep(POLL_S)
        self._tell(f"ZooKeeper has ended; {self._log('ZooKeeper')} says why")

    def stop(self) -> None:
        """End the brokers, all at once, and then ZooKeeper."""
        for entry in self.description.brokers:
            # They stop in good order.
            self._proxies.cut(entry.broker_id, ())
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_S
        for process in self._processes.values():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._zookeeper.stop()
        self._proxies.close()

    # Inside

    def _log(self, name: str) -> Path:
        return log_file(self._directory, name)

    def _connected(self, entries: list[BrokerEntry], zookeeper: int) -> list[BrokerEntry]:
        """Make the proxies of the brokers; each gets the port of the last time again, if it is free.

        A broker whose process was killed takes its registration over when it comes back at the same address.
        """
        before = remembered_ports(self._directory)
        for entry in entries:
            entry.link_port = self._proxies.add(Side("brokers", entry.broker_id), before.get(entry.broker_id, 0))
            self._to_zookeeper[entry.broker_id] = self._proxies.add(Side("zookeeper", entry.broker_id))
            self._proxies.open(self._to_zookeeper[entry.broker_id], zookeeper)
        return entries

    def _launch(self, entry: BrokerEntry) -> None:
        zookeeper = f"127.0.0.1:{self._to_zookeeper[entry.broker_id]}"
        (link_port,) = choose_ports(0, 1)
        settings = (
            broker_settings(entry, zookeeper, self._directory, len(self.description.brokers), link_port)
            | self._overrides
        )
        self._proxies.open(entry.link_port, link_port)
        line = [sys.executable, "-m", "kafkalog.cli.main", "server", "start"]
        for key, value in settings.items():
            line += ["--override", f"{key}={value}"]
        with self._log(_name(entry)).open("ab") as output:
            self._logged[entry.broker_id] = output.tell()
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                preexec_fn=end_with_parent(),
                # A terminal's Ctrl-C is for the supervisor, which ends the brokers before ZooKeeper.
                start_new_session=True,
            )
        self._processes[entry.broker_id] = process
        entry.pid = process.pid
        entry.starts += 1

    def _wait_for_broker(self, entry: BrokerEntry) -> None:
        """Wait until a broker says that it accepts connections.

        Raises:
            ClusterFailedError: it has ended before that, or takes too long.
        """
        ready = partial(is_ready, self._directory, entry.broker_id, self._logged[entry.broker_id])
        self._wait_for(_name(entry), self._processes[entry.broker_id], ready)

    def _wait_for(self, name: str, process: subprocess.Popen[bytes], is_ready: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._ready_s
        while True:
            code = process.poll()
            if code is not None:
                raise ClusterFailedError(f"{name} has ended with code {code}; {self._log(name)} says why")
            if is_ready():
                return
            if time.monotonic() >= deadline:
                raise ClusterFailedError(
                    f"{name} accepts no connections within {self._ready_s:g} s; {self._log(name)} may say why"
                )
            time.sleep(POLL_S)

    def _look_at(self, entry: BrokerEntry) -> None:
        process = self._processes[entry.broker_id]
        if entry.pid != NOT_RUNNING and process.poll() is not None:
            entry.pid = NOT_RUNNING
            self._proxies.shut(entry.link_port)
            self.description.save(self._directory)
            code = process.returncode
            how = f"was killed by signal {-code}" if code < 0 else f"has ended with code {code}"
            self._tell(f"{_name(entry)} {how}")
        request = start_request(self._directory, entry.broker_id)
        if request.exists():
            request.unlink(missing_ok=True)
            if entry.pid == NOT_RUNNING:
                self._launch(entry)
                self.description.save(self._directory)
                self._tell(f"{_name(entry)} is started")
        wanted = read_cut_request(self._directory, entry.broker_id)
        if wanted is not None:
            self._cut(entry, *wanted)
        elif self._heal_at.get(entry.broker_id, math.inf) <= time.monotonic():
            self._cut(entry, "", 0)

    def _cut(self, entry: BrokerEntry, kind: str, seconds: float) -> None:
        """Cut a broker off for some seconds, or (0) until told otherwise; connect it again where `kind` is empty."""
        self._proxies.cut(entry.broker_id, KINDS[kind])
        self._heal_at.pop(entry.broker_id, None)
        if kind and seconds:
            self._heal_at[entry.broker_id] = time.monotonic() + seconds
        entry.cut, entry.cuts = kind, entry.cuts + 1
        self.description.save(self._directory)
        self._tell(f"{_name(entry)} is {entry.connection}")


def _name(entry: BrokerEntry) -> str:
    return f"broker {entry.broker_id}"
