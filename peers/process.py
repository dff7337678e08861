"""Start a foreign process, wait until it is ready, and make sure that it ends."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

STOP_DEADLINE_S = 30.0
PORTS = range(10_000, 32_768)
"""Ports for servers. The kernel gives ports above them to connections. A connection may get such a port between its
choice and the start of the server, or while a server is down that starts again at its port."""
TRIES = 1000


class PeerFailedError(RuntimeError):
    """A foreign process ended, or was not ready in time; the message ends with its log."""


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that is free now and that the kernel gives to no connection.

    For a minute no other call returns it, in whatever process.

    Raises:
        OSError: Too few ports are free.
    """
    for port in random.SystemRandom().sample(PORTS, TRIES):
        with suppress(OSError):
            _reserve(port)
            return port
    raise OSError(f"none of {TRIES} ports from {PORTS.start} to {PORTS.stop - 1} is free")


def _reserve(port: int) -> None:
    """Leave a connection in the state TIME_WAIT at a port.

    Servers set SO_REUSEADDR, so that such connections do not keep them from the port. This function binds without it,
    and finds the port taken.
    """
    with socket.socket() as server:
        server.bind(("127.0.0.1", port))
        # The connection inherits this. The kernel lets servers have the port only if both sides have set it.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.listen(1)
        with socket.create_connection(server.getsockname()):
            accepted, _ = server.accept()
            # The side that closes first keeps the state.
            accepted.close()


def tail(path: Path, size: int = 4000) -> str:
    """Return the last `size` bytes of a text file, or an empty text if there is none."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode(errors="replace")
    except OSError:
        return ""


class Process:
    """A child process in its own process group, with its output in a file. It ends with the `with` block."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.log = log
        self.command = list(command)
        with log.open("ab") as out:
            self._popen = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env} if env else None,
                cwd=cwd,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def running(self) -> bool:
        return self._popen.poll() is None

    def wait_until(self, ready: Callable[[], bool], deadline_s: float, *, poll_s: float = 0.02) -> None:
        """Poll `ready` until it returns True.

        Raises:
            PeerFailedError: The process ends, or the deadline has passed.
        """
        end = time.monotonic() + deadline_s
        while not ready():
            if not self.running:
                raise PeerFailedError(f"{self.command[0]} ended with {self._popen.returncode}:\n{tail(self.log)}")
            if time.monotonic() > end:
                raise PeerFailedError(f"{self.command[0]} not ready in {deadline_s:.0f} s:\n{tail(self.log)}")
            time.sleep(poll_s)

    def wait(self, deadline_s: float) -> int:
        """Wait for the exit code.

        Raises:
            subprocess.TimeoutExpired: The process does not end in time.
        """
        return self._popen.wait(deadline_s)

    def stop(self, deadline_s: float = STOP_DEADLINE_S) -> int:
        """Send SIGTERM, and SIGKILL to the whole group at the deadline; return the exit code."""
        if self.running:
            self._popen.terminate()
            try:
                self._popen.wait(deadline_s)
            except subprocess.TimeoutExpired:
                self.kill()
        return self._popen.wait()

    def kill(self) -> None:
        """Send SIGKILL to the whole group, and reap the process."""
        if self.running:
            os.killpg(self._popen.pid, signal.SIGKILL)
        self._popen.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
