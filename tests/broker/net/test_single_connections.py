"""Test what a single connection does with one or a few requests, over each kind of transport."""

from __future__ import annotations

import gc
import random
import struct
import weakref

import pytest

from broker.net.connection import Connection
from broker.net.disk_reads import DiskReads
from broker.net.limits.memory import RequestMemory
from broker.net.postponed import PostponedResponse
from broker.net.session import Session
from broker.net.writer import Wait
from tests.broker.net.connecting import ENDPOINT, TRANSPORTS, Connect, Operation, steps
from tests.broker.net.simulated import SimulatedLoop

LARGEST = 200_000
LIMIT = 90_000
NUMBER = struct.Struct(">i")


class OneByOne:
    """A dispatcher whose requests follow none with a postponed response."""

    def may_follow(self, head: memoryview) -> bool:
        return False


@pytest.mark.parametrize("postpones", [False, True])
@pytest.mark.parametrize("connect", TRANSPORTS)
def test_a_closed_connection_is_gone_at_once(connect: Connect, postpones: bool) -> None:
    """Its buffer too: nothing of it waits for the garbage collector."""
    chance = random.Random(1)
    loop, memory = SimulatedLoop(chance), RequestMemory(-1)

    class Watched(Connection):
        __slots__ = ("__weakref__",)

    class Waiting(Operation):
        """A request that waits has its response, and the other way round."""

        response: PostponedResponse | None = None

    class Echo(OneByOne):
        def dispatch(self, connection: Connection, frame: memoryview) -> None:
            if bytes(frame) == b"hello":
                connection.reply([bytes(frame)])
            elif postpones:
                operation = Waiting()
                operation.response = connection.postpone(operation)

    transport, peer = connect(loop, chance)
    disk = DiskReads(loop.run_on_worker)
    connection = Watched(loop, transport, Session(ENDPOINT, ""), Echo(), memory, disk, LARGEST, on_close=lambda _: None)
    unsent, received = bytearray(NUMBER.pack(5) + b"hello" + NUMBER.pack(4) + b"wait"), b""
    for _ in steps():
        del unsent[: peer.send(bytes(unsent))]
        loop.step()
        received += peer.recv(100)
        if received and (not postpones or connection.postponed):
            break
    assert received == b"hello"
    gone = weakref.ref(connection)
    gc.disable()
    try:
        connection.close()
        loop.settle()
        del connection, transport
        assert gone() is None
    finally:
        gc.enable()
        peer.close()


@pytest.mark.parametrize("connect", TRANSPORTS)
def test_a_response_that_is_not_read_keeps_no_memory_of_its_request(connect: Connect) -> None:
    """The response ends the need of a copy, though the connection closes before it is sent."""
    chance = random.Random(1)
    loop, memory = SimulatedLoop(chance), RequestMemory(LIMIT)

    class Large(OneByOne):
        def dispatch(self, connection: Connection, frame: memoryview) -> None:
            connection.keep_memory(len(frame))
            assert memory.used > 0
            loop.call_soon(lambda: connection.reply([b"r" * 10_000_000]))

    transport, peer = connect(loop, chance)
    disk = DiskReads(loop.run_on_worker)
    connection = Connection(
        loop, transport, Session(ENDPOINT, ""), Large(), memory, disk, LARGEST, on_close=lambda _: None
    )
    size = 80_000
    unsent = bytearray(NUMBER.pack(size) + bytes(size))
    for _ in steps():
        del unsent[: peer.send(bytes(unsent))]
        loop.step()
        if connection._writer.waits_for is Wait.PEER:
            break
    assert connection._writer.waits_for is Wait.PEER
    connection.close()
    assert memory.used == 0
    peer.close()


@pytest.mark.parametrize("connect", TRANSPORTS)
def test_a_response_of_any_number_of_chunks_is_sent(connect: Connect) -> None:
    """The kernel takes 1024 at once, and refuses more."""
    chance = random.Random(1)
    loop, memory = SimulatedLoop(chance), RequestMemory(-1)

    class Many(OneByOne):
        def dispatch(self, connection: Connection, frame: memoryview) -> None:
            connection.reply([bytes([at % 251]) for at in range(5000)])

    transport, peer = connect(loop, chance)
    disk = DiskReads(loop.run_on_worker)
    connection = Connection(
        loop, transport, Session(ENDPOINT, ""), Many(), memory, disk, LARGEST, on_close=lambda _: None
    )
    unsent, received = bytearray(NUMBER.pack(0)), b""
    for _ in steps():
        del unsent[: peer.send(bytes(unsent))]
        loop.step()
        received += peer.recv(10_000)
        if len(received) == 5000 or connection.closed:
            break
    try:
        assert received == bytes(at % 251 for at in range(5000))
    finally:
        connection.close()
        peer.close()


@pytest.mark.parametrize("connect", TRANSPORTS)
def test_requests_without_response_that_come_at_once_are_all_served(connect: Connect) -> None:
    """Though others get their turn in between, and no response that is sent brings the next request on."""
    chance = random.Random(1)
    loop, memory = SimulatedLoop(chance), RequestMemory(-1)
    served = []

    class Silent(OneByOne):
        def dispatch(self, connection: Connection, frame: memoryview) -> None:
            served.append(bytes(frame))
            connection.skip_reply()

    transport, peer = connect(loop, chance)
    disk = DiskReads(loop.run_on_worker)
    connection = Connection(
        loop, transport, Session(ENDPOINT, ""), Silent(), memory, disk, LARGEST, on_close=lambda _: None
    )
    unsent = bytearray(b"".join(NUMBER.pack(1) + bytes([number]) for number in range(100)))
    for _ in steps():
        del unsent[: peer.send(bytes(unsent))]
        loop.step()
        if len(served) == 100:
            break
    try:
        assert served == [bytes([number]) for number in range(100)]
    finally:
        connection.close()
        peer.close()
