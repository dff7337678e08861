"""Test the program `kafkalog-python`: what it runs, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

from spark_kafkalog.compat.workers import starting
from tests.spark_kafkalog.starting.support import LAUNCHER, LINUX
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.spark]
LOOKUP = ("-m", starting.DAEMON, "pyspark.sql.worker.lookup_data_sources")
ENDED = (1, 4)
"""PySpark's daemon has written its port, four bytes, and has ended with its input. Its exit code is always 1."""
JVM = """
import json, subprocess, sys
running = []
for line in sys.stdin:
    order = json.loads(line)
    if "start" in order:
        process = subprocess.Popen(
            order["start"], env=order["environment"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        running.append(process)
        answer = process.pid
    else:
        out, err = running[-1].communicate()
        answer = [running[-1].returncode, len(out), err.decode()]
    print(json.dumps(answer), flush=True)
"""
"""Stands in for a JVM: it starts launchers, ends their input and tells how they ended."""


def environment(others: Mapping[str, str] | None = None) -> dict[str, str]:
    paths = os.pathsep.join(entry for entry in sys.path if entry)
    return {**os.environ, "KAFKALOG_PYTHON": sys.executable, "PYTHONPATH": paths, **(others or {})}


class Jvm:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", JVM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid

    def _ask(self, **order: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def start(self, *arguments: str, **others: str) -> int:
        """Start a launcher; return its process id."""
        return int(self._ask(start=[str(LAUNCHER), *arguments], environment=environment(others)))

    def end(self) -> tuple[int, int, str]:
        """End the input of the last launcher; return its exit code, the bytes that it printed, and its errors."""
        code, size, errors = self._ask(end=True)
        return code, size, errors

    def servers(self) -> list[psutil.Process]:
        words = ["-m", "spark_kafkalog.starting.fork_server", str(self.pid)]
        found = [each for each in psutil.process_iter(["cmdline"]) if (each.info["cmdline"] or [])[1:4] == words]
        # A child that was forked has the same words.
        return [each for each in found if each.ppid() not in {other.pid for other in found}]

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(60)


@pytest.fixture
def jvm() -> Iterator[Jvm]:
    made = Jvm()
    try:
        yield made
    finally:
        servers = made.servers()
        made.close()
        for server in servers:
            server.wait(60)


def test_python_runs_with_its_arguments_and_exit_code(jvm: Jvm) -> None:
    jvm.start("-c", "import sys; print(sys.argv[1:], sys.executable, file=sys.stderr); sys.exit(7)", "a b", "'")
    code, _, errors = jvm.end()
    assert (code, errors) == (7, f"['a b', {chr(34)}'{chr(34)}] {sys.executable}\n")
    assert jvm.servers() == []


@LINUX
def test_programs_of_the_driver_are_forked_from_one_process_that_ends_with_the_jvm(jvm: Jvm) -> None:
    for _ in range(2):
        jvm.start(*LOOKUP)
        assert jvm.end()[:2] == ENDED
    (server,) = jvm.servers()
    assert server.children() == []
    jvm.close()
    assert server.wait(60) in (0, None)


@LINUX
def test_a_program_that_fails_has_its_traceback_and_exit_code(jvm: Jvm) -> None:
    """The planner has nobody to connect to."""
    jvm.start("-m", starting.STREAM_PLANNER)
    code, size, errors = jvm.end()
    assert (code, size) == (1, 0)
    assert "Traceback" in errors
    assert "local_connect_and_auth" in errors
    assert len(jvm.servers()) == 1


@LINUX
def test_a_launcher_that_is_killed_takes_its_program_along(jvm: Jvm) -> None:
    launcher = jvm.start(*LOOKUP)
    wait_until(lambda: len(jvm.servers()) == 1 and bool(jvm.servers()[0].children()), "a child was forked")
    (server,) = jvm.servers()
    os.kill(launcher, signal.SIGTERM)
    wait_until(lambda: server.children() == [], "the child has ended")
    assert server.is_running()


@LINUX
def test_a_server_that_is_killed_takes_its_programs_along(jvm: Jvm) -> None:
    jvm.start(*LOOKUP)
    wait_until(lambda: len(jvm.servers()) == 1 and bool(jvm.servers()[0].children()), "a child was forked")
    (server,) = jvm.servers()
    (program,) = server.children()
    server.kill()
    wait_until(lambda: not program.is_running(), "the program has ended")
    code, size, _ = jvm.end()
    assert code == 1
    assert size in (0, 4), "it may have ended before it wrote its port"


@LINUX
def test_a_server_without_descriptors_leaves_programs_to_their_launchers(jvm: Jvm) -> None:
    jvm.start(*LOOKUP)
    assert jvm.end()[:2] == ENDED
    (server,) = jvm.servers()
    before = server.rlimit(psutil.RLIMIT_NOFILE)
    for free in (0, 1, 4, 5):
        server.rlimit(psutil.RLIMIT_NOFILE, (server.num_fds() + free, before[1]))
        jvm.start(*LOOKUP)
        assert jvm.end()[:2] == ENDED
    server.rlimit(psutil.RLIMIT_NOFILE, before)
    launcher = jvm.start(*LOOKUP)
    wait_until(lambda: bool(server.children()), "a child was forked")
    assert "spark_kafkalog.starting.launch" in " ".join(psutil.Process(launcher).cmdline())
    assert jvm.end()[:2] == ENDED


@LINUX
def test_other_variables_of_python_get_a_server_of_their_own(jvm: Jvm) -> None:
    for seed in ("0", "1"):
        jvm.start(*LOOKUP, PYTHONHASHSEED=seed)
        assert jvm.end()[:2] == ENDED
    assert len(jvm.servers()) == 2


def test_without_a_fork_server_python_runs_as_it_was_asked_for(jvm: Jvm) -> None:
    jvm.start(*LOOKUP, KAFKALOG_FORK_SERVER="0")
    assert jvm.end()[:2] == ENDED
    assert jvm.servers() == []


def test_the_daemon_of_tasks_is_the_one_that_imports_ahead(jvm: Jvm) -> None:
    launcher = jvm.start("-m", starting.DAEMON, "pyspark.worker")
    wait_until(lambda: "spark_kafkalog.daemon" in psutil.Process(launcher).cmdline(), "Python was executed")
    assert jvm.end()[:2] == ENDED
    assert jvm.servers() == []
