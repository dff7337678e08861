"""Run a ZooKeeper server from Apache Kafka's jars, and create nodes in it with a minimal client."""

from __future__ import annotations

import socket
import struct
from pathlib import Path

from peers.brokers import kafka
from peers.process import Process, free_port
from peers.server import Server
from peers.toolchains import java

START_DEADLINE_S = 60.0
_CREATE = 1
_CLOSE = -11
_NODE_EXISTS = -110
_ALL_PERMISSIONS = 31


class ZooKeeper(Server):
    """One server with its data in `directory`, as a context manager. `address` is "127.0.0.1:port"."""

    def __init__(self, version: str, directory: Path) -> None:
        super().__init__(directory)
        self.version = version
        self.address = ""
        self._process: Process | None = None

    def start(self) -> None:
        """Start without waiting, so that a broker's JVM can start at the same time; then call `wait`."""
        self.directory.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        options = [
            "-Xmx128M",
            *kafka.JVM_EXTRA,
            "-Dzookeeper.admin.enableServer=false",
            *kafka.logging_options(self.version, self.directory),
        ]
        line = java.java_line(
            kafka.kafka_classpath(self.version),
            "org.apache.zookeeper.server.ZooKeeperServerMain",
            [str(port), str(self.directory / "data")],
            options,
        )
        self._process = Process(line, self.directory / "zookeeper.log")

    def wait(self) -> None:
        """Wait until the server accepts sessions."""
        assert self._process is not None
        self._process.wait_until(self._answers, START_DEADLINE_S)

    def _answers(self) -> bool:
        try:
            Session(self.address).close()
        except OSError:
            return False
        return True

    def make(self, path: str, data: bytes) -> None:
        """Create a node and its parents; existing nodes do not change."""
        session = Session(self.address)
        try:
            parts = path.strip("/").split("/")
            for depth in range(1, len(parts)):
                session.create("/" + "/".join(parts[:depth]), b"")
            session.create(path, data)
        finally:
            session.close()

    def stop(self) -> None:
        """Send SIGKILL: the data is not needed afterwards."""
        if self._process is not None:
            self._process.kill()
            self._process = None


def _buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


class Session:
    """A session of ZooKeeper's wire protocol (jute): connect, create, close."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        try:
            self._send(struct.pack(">iqiq", 0, 0, 30_000, 0) + _buffer(bytes(16)) + b"\0")
            self._receive()
        except BaseException:
            self._socket.close()
            raise

    def create(self, path: str, data: bytes) -> bool:
        """Create a node; return False if it exists."""
        access = struct.pack(">ii", 1, _ALL_PERMISSIONS) + _buffer(b"world") + _buffer(b"anyone")
        self._send(struct.pack(">ii", 1, _CREATE) + _buffer(path.encode()) + _buffer(data) + access + bytes(4))
        _, _, code = struct.unpack_from(">iqi", self._receive())
        if code not in (0, _NODE_EXISTS):
            raise RuntimeError(f"ZooKeeper answers {code} to create {path}")
        return bool(code == 0)

    def close(self) -> None:
        try:
            self._send(struct.pack(">ii", 2, _CLOSE))
        finally:
            self._socket.close()

    def _send(self, body: bytes) -> None:
        self._socket.sendall(_buffer(body))

    def _receive(self) -> bytes:
        (size,) = struct.unpack(">i", self._read(4))
        return self._read(size)

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("ZooKeeper closed the connection")
            data += more
        return data
