"""The launcher `kafkalog-python`: it runs Python with the given arguments, started in the quickest way.

- A program that only a driver starts is run by a fork of the JVM's fork server (Linux). The first launcher starts the
  server.
- PySpark's daemon is replaced by the one that imports what tasks need (`spark_kafkalog.daemon`).
- Everything else is run by this environment's Python.

All of them import PySpark from its package instead of its archives, if the package is the same release. Whatever fails
on the way, Python is run as it was asked for.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

from spark_kafkalog.compat.workers.starting import is_daemon, is_of_driver
from spark_kafkalog.starting import handover
from spark_kafkalog.starting.archives import without_archives
from spark_kafkalog.starting.names import DAEMON, FORK_SERVER

_BACKLOG = 64
_SWITCH = "KAFKALOG_FORK_SERVER"
"""The environment variable that, with the value 0, keeps launchers from using a fork server."""


def main() -> NoReturn:
    """Run Python with this process's arguments, and end with its exit code."""
    arguments = sys.argv[1:]
    environment = dict(os.environ)
    given = environment.get("PYTHONPATH", "")
    environment["PYTHONPATH"] = without_archives(given, _import_path(given))
    if is_of_driver(arguments) and sys.platform == "linux" and environment.get(_SWITCH) != "0":
        code = run_forked(arguments, environment)
        if code is not None:
            _exit(code)
    if is_daemon(arguments):
        arguments[1] = DAEMON
    os.execve(sys.executable, [sys.executable, *arguments], environment)


def _import_path(python_path: str) -> list[str]:
    """Return the directories that Python imports from after PYTHONPATH."""
    entries = set(python_path.split(os.pathsep))
    return [entry for entry in sys.path if entry and entry not in entries]


def _exit(code: int) -> NoReturn:
    """End as a program with this exit code did; a negative one is the signal that ended it."""
    os._exit(code if code >= 0 else 128 - code)


def run_forked(arguments: Sequence[str], environment: Mapping[str, str]) -> int | None:
    """Have the JVM's fork server run a program, and wait for its end.

    Returns:
        The exit code; None if there is no server, and none could be started. Then the program has not begun.
    """
    jvm = os.getppid()
    try:
        address = handover.address(jvm, sys.executable, environment)
        connection = _connect(address) or _started(address, jvm, environment)
        with connection:
            if not handover.is_own(connection):
                return None
            program = handover.Program(list(arguments), os.getcwd(), dict(environment))
            handover.send(connection, program, (0, 1, 2))
            pid = handover.number(connection)
            # The program begins when the server has told its process id.
            return None if pid is None else _exit_code(connection, pid)
    except OSError:
        return None


def _exit_code(connection: socket.socket, pid: int) -> int:
    """Wait for the end of a program; return its exit code. If its server ends before it, end the program, too."""
    process: int | None = None
    with suppress(OSError):
        # Where the process has ended already, the server tells its exit code.
        process = os.pidfd_open(pid)
    with suppress(OSError):
        code = handover.number(connection)
        if code is not None:
            return code
    if process is not None:
        with suppress(OSError):
            signal.pidfd_send_signal(process, signal.SIGTERM)
    return 1


def _connect(address: str) -> socket.socket | None:
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.connect(address)
    except ConnectionRefusedError:
        connection.close()
        return None
    return connection


def _started(address: str, jvm: int, environment: Mapping[str, str]) -> socket.socket:
    """Start the server, unless another launcher does; return a connection that it will accept.

    Raises:
        OSError: It cannot be started.
    """
    connection = socket.socket(socket.AF_UNIX)
    with socket.socket(socket.AF_UNIX) as listening:
        try:
            listening.bind(address)
        except OSError:
            # Another launcher was quicker.
            connection.connect(address)
            return connection
        listening.listen(_BACKLOG)
        descriptor = listening.fileno()
        subprocess.Popen(
            [sys.executable, "-m", FORK_SERVER, str(jvm), str(descriptor)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
            pass_fds=[descriptor],
            start_new_session=True,
        )
        # It waits until the server has imported everything, as the program would have to.
        connection.connect(address)
        return connection


if __name__ == "__main__":
    main()
