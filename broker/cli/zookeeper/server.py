"""The process of a ZooKeeper server: its properties, its start, and whether it serves.

`kafkalog` starts Java as its child. On Linux the child ends with its parent, so that `kill -9` leaves nothing behind.
"""

from __future__ import annotations

import os
import shlex
import socket
import struct
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from broker.net.sockets.free_ports import free_ports
from kafkalog.cli.shared.child import end_with_parent

JAAS_KEY = "java.security.auth.login.config"
"""A property of the Java process and not of ZooKeeper's: the file with the logins that the server knows."""
PORTS = ("clientPort", "secureClientPort")
FLAGS = ("SERVER_JVMFLAGS", "JVMFLAGS")
"""Variables with options for Java, as for ZooKeeper's `zkServer.sh`."""
SECURE = {"serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory"}
"""Needed for `secureClientPort`: ZooKeeper's own default serves no TLS."""
MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
DEFAULTS = {"dataDir": "/tmp/zookeeper", "clientPort": "2181", "admin.enableServer": "false"}
"""As Apache Kafka's `config/zookeeper.properties`; ZooKeeper has no default for the first two."""
OPTIONS = ("-Xms64M", "-Xmx512M")
"""`zookeeper-server-start.sh` gives the server a heap of 512 MB."""
POLL_S = 0.05
STOP_S = 10.0
_SESSION_MS = 10_000
_OPEN = struct.pack(">iiqiqi16s?", 45, 0, 0, _SESSION_MS, 0, 16, bytes(16), False)
"""A ConnectRequest of ZooKeeper's protocol, with its length. A command of four letters would do, but a server that is
still starting logs an error for those."""
_CLOSE = struct.pack(">iii", 8, 1, -11)
"""A request of type closeSession."""

LOGGING = """\
status=error
appender.err.type=Console
appender.err.name=err
appender.err.target=SYSTEM_ERR
appender.err.layout.type=PatternLayout
appender.err.layout.pattern=%d %p %m (%c)%n%throwable
rootLogger.level=warn
rootLogger.appenderRef.err.ref=err
logger.connections.name=org.apache.zookeeper.server.NIOServerCnxn
logger.connections.level=error
"""
"""For PySpark's log4j 2: warnings, on standard error, but not of connections that come before the server is ready."""


class PortTakenError(Exception):
    """Another program listens at a port of the server, or its host has no such address."""


def with_ports(properties: Mapping[str, str]) -> dict[str, str]:
    """Return `properties` with free ports in place of 0, which ZooKeeper would not report."""
    chosen = dict(properties)
    for name in PORTS:
        if chosen.get(name) == "0":
            (port,) = free_ports(1, chosen.get(f"{name}Address", "127.0.0.1"))
            chosen[name] = str(port)
    return chosen


def addresses(properties: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return host and port of each listener for clients, plain before TLS. An unset host is the loopback address."""
    found = []
    for name in PORTS:
        if name in properties:
            host = properties.get(f"{name}Address", "")
            found.append(("127.0.0.1" if host in ("", "0.0.0.0") else host, int(properties[name])))
    return found


def check_ports(properties: Mapping[str, str]) -> None:
    """Check that nothing listens at the addresses of `properties`.

    A server that is there already would be taken for the new one.

    Raises:
        PortTakenError: One of them cannot be used.
    """
    names = [name for name in PORTS if name in properties]
    for name, place in zip(names, addresses(properties), strict=True):
        try:
            family, *_, address = socket.getaddrinfo(*place, type=socket.SOCK_STREAM)[0]
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                # As servers do, also ZooKeeper's: old connections do not keep them from the port.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                probe.listen(1)
        except OSError as error:
            reason = error.strerror or error
            raise PortTakenError(f"port {place[1]} cannot be used: {reason}; choose another {name}") from None


class ZooKeeperServer:
    """A server that runs as a child process, with its configuration in a temporary directory.

    Args:
        java: The path of `java`.
        jars: The class path.
        properties: The server's configuration.
        output: Where it writes its messages; by default where this process does.
        apart: Whether a terminal's Ctrl-C does not reach the server, because it has to end after others.
    """

    def __init__(
        self,
        java: str,
        jars: list[Path],
        properties: Mapping[str, str],
        output: IO[bytes] | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self._addresses = addresses(properties)
        if "secureClientPort" in properties:
            properties = SECURE | dict(properties)
        self._has_plain_port = "clientPort" in properties
        self._directory = tempfile.TemporaryDirectory(prefix="kafkalog-zookeeper-")
        place = Path(self._directory.name)
        config, logging = place / "zookeeper.properties", place / "log4j2.properties"
        own = {key: value for key, value in properties.items() if key != JAAS_KEY}
        config.write_text("".join(f"{key}={_escaped(value)}\n" for key, value in own.items()))
        logging.write_text(LOGGING)
        flags = [flag for name in FLAGS for flag in shlex.split(os.environ.get(name, ""))]
        if JAAS_KEY in properties:
            flags.append(f"-D{JAAS_KEY}={properties[JAAS_KEY]}")
        line = [java, *OPTIONS, *flags, f"-Dlog4j2.configurationFile={logging}", "-cp", ":".join(map(str, jars)), MAIN]
        self.process = subprocess.Popen(
            [*line, str(config)],
            stdout=output,
            stderr=output,
            preexec_fn=end_with_parent(),
            start_new_session=apart,
        )

    def serves(self) -> bool:
        """Return whether the server accepts sessions: as part of an ensemble it does once that has a leader."""
        host, port = self._addresses[0]
        try:
            with socket.create_connection((host, port), timeout=1) as connection:
                if not self._has_plain_port:
                    return True
                connection.sendall(_OPEN)
                answered = connection.recv(4) != b""
                connection.sendall(_CLOSE)
        except OSError:
            return False
        return answered

    def wait_until_it_serves(self) -> bool:
        """Return True once it serves, False if it has ended."""
        while self.process.poll() is None:
            if self.serves():
                return True
            time.sleep(POLL_S)
        return False

    def stop(self) -> None:
        """End the server, by force if it takes too long, and remove its configuration."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._directory.cleanup()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")
