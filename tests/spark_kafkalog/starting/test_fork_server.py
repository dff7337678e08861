"""Test a fork server that cannot serve: it goes on, and the programs of its launchers have not begun."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import psutil  # type: ignore[import-untyped]
import pytest

from spark_kafkalog.starting import handover
from spark_kafkalog.starting.fork_server import ForkServer
from spark_kafkalog.starting.handover import Program

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="missing because only Linux has fork servers"),
    pytest.mark.usefixtures("processes"),
]


@pytest.fixture
def jvm() -> Iterator[int]:
    """Return the descriptor of a process that runs until the end of the test."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        descriptor = os.pidfd_open(process.pid)
        yield descriptor
        process.communicate(b"\n")
        os.close(descriptor)


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "s"))
        made.listen()
        yield made


def ask(listening: socket.socket, out: Path) -> socket.socket:
    """Return the connection of a launcher that has handed over a program."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(30)
    connection.connect(listening.getsockname())
    with open(out, "w") as stream:
        handover.send(connection, Program(["-m", "this"], "/", {}), (0, stream.fileno(), 2))
    return connection


def no_processes(*_: object) -> NoReturn:
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))


class FullSelector(selectors.DefaultSelector):
    """Takes the server's own descriptors, and no more."""

    def register(self, fileobj: object, events: int, data: object = None) -> selectors.SelectorKey:
        if len(self.get_map()) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().register(fileobj, events, data)  # type: ignore[arg-type]


@pytest.mark.parametrize("what", ["fork", "pidfd_open", "register"])
def test_a_program_that_cannot_be_forked_or_watched_has_not_begun(
    what: str, jvm: int, listening: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "register":
        monkeypatch.setattr(selectors, "DefaultSelector", FullSelector)
    else:
        monkeypatch.setattr(os, what, no_processes)
    descriptors = set(os.listdir("/proc/self/fd"))
    server = ForkServer(jvm, listening, idle_s=0)
    children = psutil.Process().children()
    with ask(listening, tmp_path / "out") as first, ask(listening, tmp_path / "out") as second:
        assert server.serve() is None
        assert [handover.number(first), handover.number(second)] == [None, None]
    assert (tmp_path / "out").read_text() == ""
    assert psutil.Process().children() == children
    assert set(os.listdir("/proc/self/fd")) == descriptors


def test_a_server_without_children_and_launchers_ends(jvm: int, listening: socket.socket) -> None:
    assert ForkServer(jvm, listening, idle_s=0).serve() is None
