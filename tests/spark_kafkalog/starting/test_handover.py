"""Test the messages between launchers and their fork server."""

from __future__ import annotations

import os
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from spark_kafkalog.starting import handover
from spark_kafkalog.starting.handover import HandoverError, Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="missing because only Linux has these sockets")
PROGRAM = Program(["-m", "module", "an argument"], "/", {"NAME": "valüe"})


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    one.settimeout(10)
    other.settimeout(10)
    with one, other:
        yield one, other


def test_a_program_arrives_with_its_streams(pair: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    sender, receiver = pair
    with open(tmp_path / "out", "w") as out:
        handover.send(sender, PROGRAM, (0, out.fileno(), 2))
        program, streams = handover.receive(receiver)
    assert program == PROGRAM
    os.write(streams[1], b"written")
    for stream in streams:
        os.close(stream)
    assert (tmp_path / "out").read_bytes() == b"written"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"arguments": ["-m", 1], "directory": "/", "environment": {}}',
        b'{"arguments": ["-m"], "directory": "/", "environment": {"a": 1}}',
        b'{"arguments": ["-m"], "directory": 1, "environment": {}}',
        b'{"arguments": ["-m"], "directory": "/", "environment": []}',
        b'{"arguments": ["-m", "module"], "directory": "/", "environment": {"a": null}}',
        b"\xff" * 20,
    ],
)
def test_a_message_that_is_none_is_refused_and_its_streams_are_closed(
    message: bytes, pair: tuple[socket.socket, socket.socket]
) -> None:
    sender, receiver = pair
    before = len(os.listdir("/proc/self/fd"))
    socket.send_fds(sender, [struct.pack(">I", len(message))], [0, 1, 2])
    sender.sendall(message)
    with pytest.raises(HandoverError, match="has no program"):
        handover.receive(receiver)
    assert len(os.listdir("/proc/self/fd")) == before


def test_lengths_are_bounded_and_messages_are_whole(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = pair
    socket.send_fds(sender, [struct.pack(">I", handover.MAX_BYTES + 1)], [0, 1, 2])
    with pytest.raises(HandoverError, match="bytes"):
        handover.receive(receiver)
    socket.send_fds(sender, [struct.pack(">I", 10)], [0])
    with pytest.raises(HandoverError, match="no streams"):
        handover.receive(receiver)
    socket.send_fds(sender, [struct.pack(">I", 10)], [0, 1, 2])
    sender.sendall(b"12345")
    sender.close()
    with pytest.raises(HandoverError, match="ended"):
        handover.receive(receiver)


def test_the_address_tells_apart_what_a_running_python_cannot_change() -> None:
    environment = {"PYTHONPATH": "/a", "HOME": "/b"}
    address = handover.address(1, "/python", environment)
    assert address.startswith("\0")
    assert len(address) < 108
    per_process = environment | {"PYTHON_WORKER_FACTORY_SECRET": "s", "PYTHONUNBUFFERED": "YES", "HOME": "/c"}
    assert handover.address(1, "/python", per_process) == address
    others = [
        handover.address(2, "/python", environment),
        handover.address(1, "/other", environment),
        handover.address(1, "/python", environment | {"PYTHONPATH": "/b"}),
        handover.address(1, "/python", environment | {"PYTHONHASHSEED": "0"}),
    ]
    assert len({address, *others}) == 5


def test_a_number_is_none_after_the_end(pair: tuple[socket.socket, socket.socket]) -> None:
    sender, receiver = pair
    sender.sendall(handover.NUMBER.pack(-15) + b"\0\0")
    assert handover.number(receiver) == -15
    sender.close()
    assert handover.number(receiver) is None
