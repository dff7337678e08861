"""A kafkalog broker as a process: started as by a user, stopped or killed, restarted on the same address."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from peers.process import PeerFailedError, Process, free_port, tail

READY = re.compile(r"accepting connections on [A-Z_]+://([^\s,]+)")
"""The line of a broker that is ready, with the address of its first listener."""
START_DEADLINE_S = 120.0
RETENTION_LATER = {"log.retention.check.interval.ms": "86400000"}
"""Delays retention: tests have records with timestamps of years ago, which a broker would delete after minutes."""


class KafkalogBroker:
    """A broker process. `directory` has its log and its output; `overrides` are settings (`--override`)."""

    def __init__(self, directory: Path, overrides: dict[str, str] | None = None) -> None:
        self.directory = directory
        self.log_dir = directory / "log"
        self.output = directory / "broker.out"
        self.overrides = dict(overrides or {})
        self.address = ""
        self.prefix: list[str] = []
        """The command that starts the broker, such as a program that limits its resources."""
        self._process: Process | None = None

    @property
    def bootstrap(self) -> str:
        """Return host:port for clients."""
        return self.address

    @property
    def host(self) -> str:
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.running

    def command(self) -> list[str]:
        settings = {
            "listeners": f"PLAINTEXT://{self.address or f'127.0.0.1:{free_port()}'}",
            "log.dirs": str(self.log_dir),
            **RETENTION_LATER,
            **self.overrides,
        }
        command = [*self.prefix, sys.executable, "-m", "kafkalog.cli.main", "server", "start"]
        for key, value in settings.items():
            command += ["--override", f"{key}={value}"]
        return command

    def start(self) -> Self:
        """Start and wait until it accepts connections. After a stop it uses the same port as before."""
        self.directory.mkdir(parents=True, exist_ok=True)
        seen = self.output.stat().st_size if self.output.exists() else 0
        self._process = Process(self.command(), self.output)
        process = self._process

        def ready() -> bool:
            with self.output.open("rb") as file:
                file.seek(seen)
                match = READY.search(file.read().decode(errors="replace"))
            if match is not None:
                self.address = match[1]
            return match is not None

        try:
            process.wait_until(ready, START_DEADLINE_S)
        except PeerFailedError:
            self.kill()
            raise
        return self

    def stop(self) -> int:
        """Send SIGTERM; return the exit code."""
        assert self._process is not None
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL, so that the broker can finish nothing."""
        if self._process is not None and self._process.running:
            self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        process = self._process
        assert process is not None
        if process.running:
            os.kill(process.pid, number)
        return process.wait(60.0)

    def logged(self) -> str:
        """Return what the broker has printed."""
        return tail(self.output, 1 << 20)

    def connect(self) -> socket.socket:
        """Open a raw connection."""
        return socket.create_connection((self.host, self.port), timeout=60)

    def wait_logged(self, pattern: str, deadline_s: float = 90.0) -> None:
        """Wait until a line of the output matches."""
        end = time.monotonic() + deadline_s
        while not re.search(pattern, self.logged()):
            assert time.monotonic() < end, f"{pattern!r} never appeared in:\n{self.logged()}"
            time.sleep(0.02)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
