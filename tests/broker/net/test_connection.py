"""Test that a connection keeps its promises over each kind of transport, in any order of events."""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest

from broker.log.files.open_files import OpenFiles
from broker.log.segment.file_slices import FileSlice, SegmentFile
from broker.net import connection as connections
from broker.net import framing, postponed, writer
from broker.net.chunks import Chunk
from broker.net.connection import BadRequestError, Connection
from broker.net.disk_reads import DiskReads
from broker.net.limits.memory import RequestMemory
from broker.net.session import Session
from broker.net.transport.interface import Transport
from tests.broker.net.connecting import ENDPOINT, TRANSPORTS, Connect, Operation, steps
from tests.broker.net.simulated import SimulatedLoop
from tests.broker.net.transports import Peer

FILE_BYTES = 300_000
LARGEST = 200_000
LIMIT = 90_000
REQUESTS = 12
NUMBER = struct.Struct(">i")
HEAD = struct.Struct(">hi")
"""Of a request: whether it may follow those whose responses are postponed, and its number."""
MOST_POSTPONED = 3


class Client:
    """The client of one connection, and what must become of its requests."""

    def __init__(self, connection: Connection, transport: Transport, peer: Peer, chance: random.Random) -> None:
        self.connection = connection
        self.transport = transport
        self.peer = peer
        self.unsent = bytearray()
        for number in range(REQUESTS):
            size = chance.choice((0, 100, 5_000, 33_000, 70_000, LARGEST))
            head = HEAD.pack(chance.random() < 0.7, number)
            self.unsent += NUMBER.pack(len(head) + size) + head + bytes([number]) * size
        self.begun = 0
        self.under_way = False
        self.copies = 0
        self.kept = 0
        """Bytes that are kept for the copy of the request under way."""
        self.frames: dict[int, memoryview] = {}
        """The bytes of requests that workers hold, by request."""
        self.held_until = 0.0
        self.waiting = 0
        """The requests whose responses are postponed."""
        self.answers: dict[int, bytes] = {}
        self.received = bytearray()
        self.closed = 0

    def condition(self) -> str:
        """Describe the state of the connection, for the report of a failure that may not come again."""
        reader, writer = self.connection._reader, self.connection._writer
        sock = getattr(self.transport, "_sock", None)
        # State, congestion state, retransmits, probes and backoff: the first bytes of struct tcp_info.
        kernel = list(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 5)) if sock is not None else None
        return (
            f"{self.begun} of {REQUESTS} begun, under way: {self.under_way}, {self.waiting} postponed, "
            f"{len(self.unsent)} bytes unsent, "
            f"{len(self.received)} of {len(self.expected)} received; reads: {reader.is_receiving}, waits for memory: "
            f"{reader.waits_for_memory}, has taken {reader.taken}; writes, waits for {writer.waits_for}; "
            f"tcp_info {kernel}"
        )

    @property
    def expected(self) -> bytes:
        """The responses that may have come by now."""
        in_order = takewhile(lambda number: number in self.answers, range(REQUESTS))
        return b"".join(self.answers[number] for number in in_order)

    @property
    def is_served(self) -> bool:
        is_busy = self.under_way or self.waiting
        return self.begun == REQUESTS and not is_busy and self.received == self.expected


class Room:
    """Connections that share a loop, a memory, the workers and a file; it is their dispatcher, too."""

    def __init__(self, seed: int, connect: Connect, file: SegmentFile, content: bytes) -> None:
        self.chance = random.Random(seed)
        self.loop = SimulatedLoop(self.chance)
        self.memory = RequestMemory(LIMIT)
        self.file = file
        self.content = content
        self.disk = DiskReads(self.loop.run_on_worker, self._is_resident, lambda *_: None)
        self.looked_for: set[int] = set()
        self.parts: list[tuple[Client, int]] = []
        """The positions at which the sent parts of slices begin, each with its client."""
        self.clients: dict[Connection, Client] = {}
        self.breaks: set[Connection] = set()
        """Connections whose end may come at any moment."""
        for _ in range(6):
            transport, peer = connect(self.loop, self.chance)
            session = Session(ENDPOINT, transport.peer)
            connection = Connection(
                self.loop, transport, session, self, self.memory, self.disk, LARGEST + 100, self._on_close
            )
            self.clients[connection] = Client(connection, transport, peer, self.chance)
        self.breaks.update(list(self.clients)[::2])

    def _is_resident(self, fd: int, position: int, length: int) -> bool:
        self.looked_for.add(position)
        return self.chance.random() < 0.6

    def _on_close(self, connection: Connection) -> None:
        self.clients[connection].closed += 1

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        client, chance = self.clients[connection], self.chance
        follows, number = HEAD.unpack_from(frame)
        assert number == client.begun, "in order"
        assert follows or not connection.postponed, "not while responses are postponed"
        assert len(connection.postponed) < MOST_POSTPONED
        assert not client.under_way, "one at a time"
        assert not connection.closed
        assert connection._writer.waits_for is None, "not while its client does not read"
        assert not client.transport.has_unsent
        assert self.loop.now >= client.held_until, "not while its client is held back"
        assert bytes(frame[HEAD.size :]) == bytes([number]) * (len(frame) - HEAD.size)
        client.begun += 1
        client.under_way = True
        if connection in self.breaks and chance.random() < 0.05:
            if chance.random() < 0.5:
                raise BadRequestError("so it was decided")
            connection.close()
            return
        if chance.random() < 0.3:
            client.frames[number] = connection.keep_frame(frame)
            client.kept = connection._reader.taken
            client.copies += 1
            self._sometime(lambda: self._free(client, number))
            if connection in self.breaks and chance.random() < 0.2:
                self._sometime(connection.close)
        operation = Operation()
        match chance.randrange(5):
            case 0 | 1:
                self._answer(client, number)
            case 2:
                connection.state = operation
                self._sometime(lambda: self._answer(client, number, operation))
            case 3:
                self._sometime(lambda: self._answer(client, number))
            case _ if chance.random() < 0.5:
                self._postpone(client, number)
            case _:
                self._sometime(lambda: self._postpone(client, number))

    def may_follow(self, head: memoryview) -> bool:
        return bytes(head) == b"\0\1"

    def _postpone(self, client: Client, number: int) -> None:
        client.under_way = False
        client.kept = 0
        client.waiting += 1
        operation = Operation()
        operation.cancelled += client.connection.closed
        response = client.connection.postpone(operation)

        def answer() -> None:
            assert operation.cancelled == client.connection.closed
            client.waiting -= 1
            if not client.connection.closed:
                self._maybe_hold_back(client)
            response.reply(self._response(client, number))

        self._sometime(answer)

    def _maybe_hold_back(self, client: Client) -> None:
        if self.chance.random() < 0.3:
            seconds = self.chance.choice((0.001, 0.05))
            client.held_until = max(client.held_until, self.loop.now + seconds)
            client.connection.hold_back(seconds)

    def _sometime(self, callback: Callable[[], None]) -> None:
        self.loop.call_later(self.chance.choice((0, 0.001, 0.1)), callback)

    def _free(self, client: Client, number: int) -> None:
        """A worker is done with its copy of a request, whatever has become of the connection."""
        client.copies -= 1
        assert set(client.frames.pop(number)[HEAD.size :]) <= {number}, "overwritten"
        if client.connection.closed or (client.under_way and client.begun == number + 1):
            client.kept = 0
            client.connection.free_memory()

    def _answer(self, client: Client, number: int, operation: Operation | None = None) -> None:
        connection, chance = client.connection, self.chance
        if operation is not None:
            assert operation.cancelled == connection.closed
        client.under_way = False
        if connection.closed:
            connection.reply([b"too late"])
            return
        client.kept = 0
        self._maybe_hold_back(client)
        if chance.random() < 0.2:
            client.answers[number] = b""
            connection.skip_reply()
            return
        connection.reply(self._response(client, number))

    def _response(self, client: Client, number: int) -> list[Chunk]:
        chance = self.chance
        chunks: list[Chunk] = [NUMBER.pack(number)]
        expected = bytearray(NUMBER.pack(number))
        for _ in range(chance.randrange(4)):
            size = chance.choice((0, 1, 300, 5_000, 60_000))
            match chance.randrange(3):
                case 0:
                    chunks.append(memoryview(bytes([number]) * size))
                    expected += bytes([number]) * size
                case 1:
                    chunks.append(bytearray(b"r") * size)
                    expected += b"r" * size
                case _:
                    at = chance.randrange(FILE_BYTES - size)
                    chunks.append(FileSlice(self.file, at, size))
                    self.parts += [(client, part) for part in range(at, at + size, writer.PART_BYTES)]
                    expected += self.content[at : at + size]
        client.answers[number] = bytes(expected)
        return chunks

    def step(self) -> None:
        client = self.chance.choice(list(self.clients.values()))
        match self.chance.randrange(8):
            case 0 | 1:
                piece = bytes(client.unsent[: self.chance.choice((1, 7, 3_000, 80_000))])
                del client.unsent[: client.peer.send(piece)]
            case 2 | 3:
                client.received += client.peer.recv(self.chance.choice((1, 100, 50_000)))
            case 4 if client.connection in self.breaks and self.chance.random() < 0.003:
                client.peer.close()
            case 5 if client.connection in self.breaks and self.chance.random() < 0.003:
                client.connection.close()
            case _:
                self.loop.step()
        self.check()

    def check(self) -> None:
        assert self.memory.used == sum(connection._reader.taken for connection in self.clients)
        assert self.memory.used < LIMIT + LARGEST + NUMBER.size + HEAD.size
        for connection, client in self.clients.items():
            reader = connection._reader
            assert reader.taken >= client.kept
            assert not (reader.waits_for_memory and reader.taken)
            if self.loop.now < client.held_until and not client.under_way and not connection.closed:
                assert not reader.is_receiving
                if connection._writer.waits_for is None:
                    assert reader.taken <= max(0, reader.frames.buffered - framing.BASE_CAPACITY)

    def close(self) -> None:
        for client in self.clients.values():
            client.connection.close()
            client.peer.close()
        self.loop.settle()


@pytest.fixture(scope="module")
def content() -> bytes:
    return os.urandom(FILE_BYTES)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> SegmentFile:
    path: Path = tmp_path_factory.mktemp("net") / "00000000000000000000.log"
    path.write_bytes(content)
    return SegmentFile(os.open(path, os.O_RDONLY), OpenFiles())


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "PART_BYTES", 16_384)
    monkeypatch.setattr(connections, "FRAMES_PER_EVENT", 3)
    monkeypatch.setattr(postponed, "MOST_POSTPONED", MOST_POSTPONED)
    monkeypatch.setattr(framing, "HANDED_OVER_FROM", 50_000)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("connect", TRANSPORTS)
def test_whatever_happens_responses_keep_their_order_and_memory_comes_back(
    connect: Connect, seed: int, file: SegmentFile, content: bytes
) -> None:
    """Partial sends and receives, waits for memory, for the disk and for quotas, and connections that end."""
    room = Room(seed, connect, file, content)
    stay = [client for connection, client in room.clients.items() if connection not in room.breaks]
    for _ in steps():
        if all(client.is_served for client in stay):
            break
        room.step()
    else:
        pytest.fail("not served: " + "; ".join(client.condition() for client in stay if not client.is_served))
    room.loop.settle()
    for client in room.clients.values():
        assert client.expected.startswith(client.received)
        assert not client.copies
    for client in stay:
        assert client.connection.drained
        assert not client.connection._reader.taken
        assert not client.closed
    assert {at for client, at in room.parts if client in stay} <= room.looked_for
    room.close()
    assert room.memory.used == 0
    assert [client.closed for client in room.clients.values()] == [1] * 6
    assert not room.loop.readers
    assert not room.loop.writers
