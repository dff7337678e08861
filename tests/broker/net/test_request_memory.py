"""Tests of `queued.max.request.bytes`: what counts, the bound, and that no request waits for unused memory."""

from __future__ import annotations

import asyncio
import os
import random
import select
import socket
import struct
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.api.context import Request
from broker.api.dispatcher import ApiDispatcher
from broker.config.listeners import Endpoint
from broker.net.connection import Connection
from broker.net.disk_reads import DiskReads, on_workers
from broker.net.framing import BASE_CAPACITY
from broker.net.limits.memory import RequestMemory, Share
from broker.net.session import Session
from broker.net.transport.plain import PlainTransport
from broker.system.workers import ThreadWorkers
from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.broker.api.groups.groups_support import ready
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import batch, create_topic, produce, produce_request, receive_frame

DEADLINE_S = 60
LIMIT = 1 << 20
OK = struct.pack(">i", 0)
Serve = Callable[[Connection, memoryview], None]


def at_once(connection: Connection, frame: memoryview) -> None:
    connection.reply([OK])


def later(connection: Connection, frame: memoryview) -> None:
    asyncio.get_running_loop().call_soon(connection.reply, [OK])


def unread(connection: Connection, frame: memoryview) -> None:
    connection.reply([bytes(20_000_000)])


def without_response(connection: Connection, frame: memoryview) -> None:
    asyncio.get_running_loop().call_soon(connection.skip_reply)


def never(connection: Connection, frame: memoryview) -> None:
    """Nothing of it is looked at any more; it waits."""


class Peers:
    """Connections that share a memory, with the sockets of their clients."""

    def __init__(self, serve: Serve, limit: int) -> None:
        self.serve = serve
        self.memory = RequestMemory(limit)
        self.most = 0
        """Bytes that were taken when some request was served."""
        self.connections: list[Connection] = []
        self._clients: list[socket.socket] = []

    def may_follow(self, head: memoryview) -> bool:
        return False

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        self.most = max(self.most, self.memory.used)
        self.serve(connection, frame)

    def connect(self) -> socket.socket:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            client = socket.create_connection(listening.getsockname())
            sock, _ = listening.accept()
        client.setblocking(False)
        sock.setblocking(False)
        loop, endpoint = asyncio.get_running_loop(), Endpoint("PLAINTEXT", "127.0.0.1", 0)
        transport, disk = PlainTransport(loop, sock), DiskReads(on_workers(ThreadWorkers(1)))
        session = Session(endpoint, transport.peer)
        connection = Connection(loop, transport, session, self, self.memory, disk, 100 << 20, lambda _: None)
        self.connections.append(connection)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for connection in self.connections:
            connection.close()
        for client in self._clients:
            client.close()

    @property
    def held(self) -> int:
        """Bytes of all buffers beyond those that every connection has."""
        return sum(each._reader.frames.beyond_base for each in self.connections if not each.closed)


@contextmanager
def peers(serve: Serve, limit: int = LIMIT) -> Iterator[Peers]:
    made = Peers(serve, limit)
    try:
        yield made
    finally:
        made.close()
        assert made.memory.used == 0


def run(main: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(DEADLINE_S):
            await main

    asyncio.run(bounded())


def framed(size: int) -> bytes:
    return struct.pack(">i", size) + bytes(size)


async def send(client: socket.socket, data: bytes) -> None:
    await asyncio.get_running_loop().sock_sendall(client, data)


async def answers(client: socket.socket, count: int = 1) -> None:
    left = count * len(OK)
    while left:
        data = await asyncio.get_running_loop().sock_recv(client, left)
        assert data
        left -= len(data)


async def until(holds: Callable[[], bool]) -> None:
    while not holds():
        await asyncio.sleep(0.001)


def test_a_handler_that_fails_keeps_nothing() -> None:
    """As one that finds no memory for the copy that it keeps memory for: others are served all the same."""

    def fail(request: Request) -> None:
        request.connection.keep_memory(request.nbytes)
        raise MemoryError

    counters = SimpleNamespace(requests=[])
    broker: Any = SimpleNamespace(
        replicas=SimpleNamespace(counters=counters),
        quotas=SimpleNamespace(request=SimpleNamespace(limited=False)),
        loop=None,
        member=None,
        runtime=SimpleNamespace(seconds=time.perf_counter),
    )
    dispatcher = ApiDispatcher(broker)
    dispatcher.apis[ApiKey.PRODUCE] = replace(dispatcher.apis[ApiKey.PRODUCE], handler=fail)
    request = encode_request(produce_request("t", {0: batch([b"x" * 200_000])}), 9, 1, "me")

    async def main() -> None:
        with peers(dispatcher.dispatch) as made:
            client = made.connect()
            await send(client, request)
            await until(lambda: made.connections[0].closed)
            assert made.memory.used == 0

    run(main())


@pytest.mark.parametrize("serve", [at_once, later, unread, without_response, never])
def test_a_served_request_takes_nothing_while_its_connection_is_quiet(serve: Serve) -> None:
    async def main() -> None:
        with peers(serve) as all_:
            one = all_.connect()
            await send(one, framed(2 * LIMIT))
            await until(lambda: all_.most >= 2 * LIMIT - BASE_CAPACITY)
            await until(lambda: all_.memory.used == 0)
            assert all_.held == 0
            all_.serve = at_once
            other = all_.connect()
            await send(other, framed(LIMIT))
            await answers(other)

    run(main())


def test_a_copy_for_a_worker_is_counted_until_it_is_gone() -> None:
    def copied(connection: Connection, frame: memoryview) -> None:
        connection.keep_memory(len(frame))

    async def main() -> None:
        with peers(copied) as all_:
            one, size = all_.connect(), 2 * LIMIT
            await send(one, framed(size) + bytes(100))
            await until(lambda: all_.memory.used > 0 and all_.held == 0)
            assert all_.memory.used == size + 4 - BASE_CAPACITY
            all_.connections[0].free_memory()
            assert all_.memory.used == 0
            all_.connections[0].reply([OK])
            await answers(one)

            two = all_.connect()
            await send(two, framed(size))
            await until(lambda: all_.memory.used > 0 and all_.held == 0)
            two.close()
            await until(lambda: all_.connections[1].closed)
            # The worker goes on.
            assert all_.memory.used == size + 4 - BASE_CAPACITY
            all_.connections[1].free_memory()
            assert all_.memory.used == 0
            all_.connections[1].free_memory()
            assert all_.memory.used == 0

            three = all_.connect()
            await send(three, framed(size))
            await until(lambda: all_.memory.used > 0 and all_.held == 0)
            all_.connections[2].reply([OK])
            await answers(three)
            assert all_.memory.used == 0

    run(main())


@pytest.mark.parametrize("serve", [at_once, later])
def test_the_bound_holds_for_connections_that_send_ahead(serve: Serve) -> None:
    """Each keeps a little behind what it has been answered; they take their turns, and all are served."""
    large, small, count = 4 * LIMIT, 34_000, 8

    async def main() -> None:
        with peers(serve) as all_:
            clients = [all_.connect() for _ in range(count)]
            for client in clients:
                await send(client, framed(small) + framed(large)[:5])
                await answers(client)
            sending = [asyncio.create_task(send(client, framed(large)[5:] + framed(small))) for client in clients]
            answered = [asyncio.create_task(answers(client, 2)) for client in clients]
            while not all(task.done() for task in answered):
                assert all_.held <= all_.memory.used < LIMIT + large
                await asyncio.sleep(0.0005)
            await asyncio.gather(*sending, *answered)
            await until(lambda: all_.memory.used == 0)

    run(main())


@pytest.mark.parametrize("seed", range(3))
def test_random_requests_are_all_answered_within_the_bound(seed: int) -> None:
    """Of all sizes, answered in all ways; some clients leave."""
    chance, largest, limit = random.Random(seed), 500_000, 150_000

    def serve(connection: Connection, frame: memoryview) -> None:
        loop = asyncio.get_running_loop()
        if chance.random() < 0.2:
            connection.hold_back(chance.choice((0.001, 0.01)))
        out = [OK, bytes(chance.choice((0, 200_000)))]
        match chance.randrange(4):
            case 0:
                connection.reply(out)
            case 1:
                loop.call_later(chance.choice((0, 0.003)), connection.reply, out)
            case 2:
                connection.keep_memory(len(frame))
                loop.call_later(chance.choice((0, 0.003)), connection.reply, out)
                loop.call_later(chance.choice((0, 0.003)), connection.free_memory)
            case _:
                connection.skip_reply()
        served[connection] = served.get(connection, 0) + 1

    served: dict[Connection, int] = {}

    async def read(client: socket.socket) -> None:
        while await asyncio.get_running_loop().sock_recv(client, 1 << 20):
            pass

    async def write(client: socket.socket, leaves: bool) -> None:
        for _ in range(20):
            await send(client, framed(chance.choice((0, 100, 30_000, 33_000, 70_000, largest))))
            if leaves and chance.random() < 0.1:
                client.shutdown(socket.SHUT_RDWR)
                return
            if chance.random() < 0.3:
                await asyncio.sleep(0.001)

    async def main() -> None:
        with peers(serve, limit) as all_:
            stay = [True, True, False, True, False, True]
            clients = [all_.connect() for _ in stay]
            reading = [asyncio.create_task(read(client)) for client in clients]
            writing = [asyncio.create_task(write(c, not s)) for c, s in zip(clients, stay, strict=True)]

            def is_done() -> bool:
                assert all_.held <= all_.memory.used < limit + largest
                for connection in all_.connections:
                    if connection._reader.waits_for_memory:
                        assert connection._reader.taken == 0
                return all(
                    served.get(connection, 0) == 20 for connection, s in zip(all_.connections, stay, strict=True) if s
                )

            await until(is_done)
            await asyncio.gather(*writing, return_exceptions=True)
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
            await until(lambda: all(not connection._reader.taken for connection in all_.connections))

    run(main())


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 60), st.booleans()), max_size=80))
def test_shares_are_granted_in_the_order_of_asking(steps: list[tuple[int, int, bool]]) -> None:
    memory = RequestMemory(100)
    asked: list[int] = []

    def share(number: int) -> Share:
        def granted() -> None:
            assert asked.pop(0) == number

        return memory.share(granted)

    shares = [share(number) for number in range(6)]
    for number, count, leaves in steps:
        mine = shares[number]
        if number in asked and leaves:
            mine.close()
            asked.remove(number)
            shares[number] = share(number)
        elif number in asked:
            # Asked again, it has one place still, and is granted once.
            assert not mine.take(count)
        elif mine.taken:
            mine.keep(0)
        elif mine.take(count):
            assert not asked
        else:
            asked.append(number)
        assert [each.waits for each in shares] == [number in asked for number in range(6)]
        assert memory.used == sum(each.taken for each in shares) < 100 + 60
        assert not asked or memory.used >= 100


def test_without_a_bound_nobody_waits() -> None:
    memory = RequestMemory(-1)
    assert not memory.bounded
    shares = [memory.share(lambda: pytest.fail("nobody waits")) for _ in range(3)]
    assert all(share.take(1 << 40) for share in shares)
    for share in shares:
        share.keep(0)
    assert memory.used == 0


def test_who_waits_for_other_members_takes_no_memory(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker(
        {"queued.max.request.bytes": "100000", "group.initial.rebalance.delay.ms": str(10 * 60 * 1000)}
    )
    with broker.connect() as small, broker.connect() as large, broker.connect() as other:
        create_topic(other, "t", 1)
        for sock, size in ((small, 50_000), (large, 200_000)):
            join = JoinGroupRequest(
                group_id=f"g{size}", session_timeout_ms=60_000, rebalance_timeout_ms=600_000, member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(size))],
            )  # fmt: skip
            ready(other, join.group_id)
            sock.sendall(encode_request(join, 3, 1, "member"))
        other.settimeout(DEADLINE_S)
        for _ in range(3):
            assert produce(other, "t", batch([b"x" * 200_000])).error_code == 0
        assert not select.select([small, large], [], [], 0)[0]


@pytest.mark.parametrize("settings", [{"flush_messages": "1"}, {"compression_type": "zstd"}], ids=str)
def test_requests_of_many_are_served_one_after_the_other(
    start_broker: Callable[..., KafkalogBroker], settings: dict[str, str]
) -> None:
    """They are answered later, or copied for a worker; none waits until the one before is trimmed."""
    broker = start_broker({"queued.max.request.bytes": "300000"})
    socks = [broker.connect() for _ in range(6)]
    # Quiet connections are looked for each 30 s.
    deadline = time.monotonic() + DEADLINE_S
    try:
        create_topic(socks[0], "t", 1, **settings)
        data = encode_request(produce_request("t", {0: batch([os.urandom(400_000)])}), 9, 1, "t")
        for sock in socks:
            sock.settimeout(max(deadline - time.monotonic(), 0.001))
            sock.sendall(data)
            assert receive_frame(sock)
    finally:
        for sock in socks:
            sock.close()
