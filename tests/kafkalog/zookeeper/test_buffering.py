"""Buffers between kazoo and its connection: the order of messages, the time of sending, and waiting."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from kafkalog.zookeeper.buffering import WRITE_BYTES, BufferedConnection, ReadingEnd, Wakeup, WritingEnd, wait

Pair = tuple[BufferedConnection, socket.socket]
Ends = tuple[ReadingEnd, WritingEnd]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.settimeout(10)
    yield BufferedConnection(ours), theirs
    ours.close()
    theirs.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    found = Wakeup().ends()
    yield found
    found[0].close()


def test_answers_are_read_in_pieces_as_they_came(pair: Pair) -> None:
    connection, server = pair
    answers = [bytes([number]) * (number + 1) for number in range(200)]
    server.sendall(b"".join(struct.pack(">i", len(each)) + each for each in answers))
    found = []
    for _ in answers:
        assert wait([connection], [], 10) == ([connection], [])
        (size,) = struct.unpack(">i", connection.recv(4))
        found.append(connection.recv(size))
    assert found == answers
    assert not connection.pending()
    assert wait([connection], [], 0) == ([], [])


def test_what_has_come_is_read_before_the_end_of_the_connection(pair: Pair) -> None:
    connection, server = pair
    server.sendall(b"last")
    server.close()
    assert [connection.recv(2), connection.recv(2), connection.recv(2)] == [b"la", b"st", b""]


def test_what_was_written_is_sent_before_anything_is_waited_for(pair: Pair) -> None:
    connection, server = pair
    assert wait([], [connection], 10) == ([], [connection])
    assert connection.send(b"one") == 3
    connection.send(b"two")
    assert connection.waiting == 6
    assert wait([connection], [], 0) == ([], [])
    assert not connection.waiting
    assert server.recv(10) == b"onetwo"


def test_requests_that_are_queued_go_together(pair: Pair, ends: Ends) -> None:
    connection, server = pair
    reading, writing = ends
    for _ in range(3):
        writing.send(b"\0")
    for number in range(3):
        assert wait([connection, reading], [], 10) == ([reading], [])
        connection.send(bytes([number]))
        assert reading.recv(1) == b"\0"
    assert connection.waiting == 3
    assert wait([connection, reading], [], 0) == ([], [])
    assert server.recv(10) == b"\0\1\2"


def test_answers_are_not_forgotten_while_many_requests_are_queued(pair: Pair, ends: Ends) -> None:
    connection, server = pair
    reading, writing = ends
    writing.send(b"\0")
    writing.send(b"\0")
    server.sendall(b"answer")
    connection.send(bytes(WRITE_BYTES))
    assert wait([connection, reading], [], 10) == ([connection, reading], [])


def test_a_server_that_takes_nothing_is_waited_for(pair: Pair) -> None:
    connection, server = pair
    sent = bytearray()
    while wait([], [connection], 0)[1]:
        piece = struct.pack(">i", len(sent)) * 1024
        connection.send(piece)
        sent += piece
    assert connection.waiting >= WRITE_BYTES
    found = bytearray()
    while not wait([], [connection], 0)[1]:
        found += server.recv(1 << 20)
    while connection.waiting:
        found += server.recv(1 << 20)
        wait([connection], [], 0)
    server.setblocking(False)
    while len(found) < len(sent):
        found += server.recv(1 << 20)
    assert found == sent


def test_a_connection_that_has_failed_is_told_of(pair: Pair) -> None:
    connection, server = pair
    server.close()
    connection.send(b"request")
    with pytest.raises(BrokenPipeError):
        wait([connection], [], 0)


def test_each_request_is_counted(ends: Ends) -> None:
    reading, writing = ends
    assert wait([reading], [], 0) == ([], [])
    writing.send(b"\0")
    writing.send(b"\0")
    reading.recv(1)
    assert wait([reading], [], 0) == ([reading], [])
    reading.recv(1)
    assert wait([reading], [], 0) == ([], [])
    with pytest.raises(BlockingIOError):
        reading.recv(1)


def test_nothing_is_queued_on_a_closed_one(ends: Ends) -> None:
    reading, writing = ends
    reading.close()
    writing.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        writing.send(b"\0")
