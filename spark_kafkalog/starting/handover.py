"""The protocol by which a launcher finds the fork server of its JVM, and hands a program over to it.

The address is a name in Linux's abstract namespace of sockets: it needs no directory, and goes with the server. It has
the user, the JVM's process, and a digest of what a running Python cannot change any more: its program, its `PYTHON…`
variables, and the namespaces in which paths and process ids are valid. Both sides refuse a peer of another user.

A launcher sends its standard streams and a message: length, and JSON of `Program`. The server answers with the id of
the process that runs the program, and later with its exit code. If one side closes the connection before that, it is
gone.
"""

from __future__ import annotations

import array
import hashlib
import json
import os
import socket
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass

NUMBER = struct.Struct(">i")
"""A process id, or an exit code."""
_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")
_STREAMS = 3
MAX_BYTES = 16 << 20
"""The largest message: an environment is smaller."""
_PER_PROCESS = ("PYTHON_", "PYTHONUNBUFFERED")
"""Beginnings of variables that begin with PYTHON and concern one process: ports and secrets of Spark."""


class HandoverError(Exception):
    """The other side is not there, is not trusted, or does not keep to the protocol."""


@dataclass(frozen=True)
class Program:
    """The program that a launcher was asked to run: Python's arguments, the working directory and the environment."""

    arguments: list[str]
    directory: str
    environment: dict[str, str]


def address(jvm: int, executable: str, environment: Mapping[str, str]) -> str:
    """Return the address of the fork server for processes of a JVM that run this Python."""
    fixed = {
        name: value
        for name, value in environment.items()
        if name.startswith("PYTHON") and not name.startswith(_PER_PROCESS)
    }
    spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("mnt", "pid", "user")]
    told = json.dumps([executable, sorted(fixed.items()), spaces])
    return f"\0kafkalog-python-{os.getuid()}-{jvm}-{hashlib.sha256(told.encode()).hexdigest()[:32]}"


def is_own(connection: socket.socket) -> bool:
    """Return whether the peer runs as this process's user."""
    got = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    _, user, _ = _CREDENTIALS.unpack(got)
    return bool(user == os.getuid())


def send(connection: socket.socket, program: Program, streams: tuple[int, int, int]) -> None:
    """Send a program and the descriptors of its standard streams."""
    message = json.dumps(asdict(program)).encode()
    rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", streams))]
    connection.sendmsg([_LENGTH.pack(len(message))], rights)
    connection.sendall(message)


def receive(connection: socket.socket) -> tuple[Program, list[int]]:
    """Receive a program and the descriptors of its standard streams, which the caller closes.

    Raises:
        HandoverError: The peer is of another user, or the message is not one.
        OSError: The connection has failed or timed out.
    """
    if not is_own(connection):
        raise HandoverError("the peer is of another user")
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, _STREAMS)
    try:
        if len(head) != _LENGTH.size or len(streams) != _STREAMS:
            raise HandoverError("the message has no length or no streams")
        (size,) = _LENGTH.unpack(head)
        if size > MAX_BYTES:
            raise HandoverError(f"a message of {size} bytes")
        return _program(_exactly(connection, size)), streams
    except BaseException:
        for stream in streams:
            os.close(stream)
        raise


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 16))
        if not part:
            raise HandoverError("the connection ended within a message")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _program(message: bytes) -> Program:
    try:
        found = json.loads(message)
        program = Program(found["arguments"], found["directory"], found["environment"])
    except (ValueError, KeyError, TypeError):
        raise HandoverError("the message has no program") from None
    if not isinstance(program.arguments, list) or not isinstance(program.environment, dict):
        raise HandoverError("the message has no program")
    texts = [program.directory, *program.arguments, *program.environment, *program.environment.values()]
    if not all(isinstance(each, str) for each in texts):
        raise HandoverError("the message has no program")
    return program


def number(connection: socket.socket) -> int | None:
    """Receive a number; None if the connection has ended."""
    data = b""
    while len(data) < NUMBER.size:
        part = connection.recv(NUMBER.size - len(data))
        if not part:
            return None
        data += part
    return int(NUMBER.unpack(data)[0])
