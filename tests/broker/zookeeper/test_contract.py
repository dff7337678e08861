"""The promises of ZooKeeper that a broker relies on, held by the real one over kazoo and by the simulated one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from kazoo.client import KazooClient, KazooState

from broker.zookeeper.interface import (
    NO_OWNER,
    BadVersionError,
    Change,
    Check,
    ConnectionLossError,
    Create,
    Delete,
    MultiError,
    Node,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionState,
    SetData,
    Stat,
    WatchEvent,
    ZooKeeper,
    ensure,
)
from broker.zookeeper.kazoo_client import KazooSession
from peers import require
from peers.brokers import kafka
from peers.brokers.zookeeper import ZooKeeper as ZooKeeperServer
from tests.simulation import virtual_time
from tests.simulation.zookeeper import SimulatedEnsemble, SimulatedSession
from tests.support.tcp_proxy import Proxy

SESSION_S = 4.0
"""The least that the server grants: two of its ticks."""
Scenario = Callable[["World"], Coroutine[Any, Any, None]]


class World(Protocol):
    """A ZooKeeper, and what can be done to its sessions."""

    async def open(self) -> ZooKeeper: ...

    async def disconnect(self, session: ZooKeeper) -> None: ...

    async def shut_out(self, session: ZooKeeper) -> None: ...

    async def expire(self, session: ZooKeeper) -> None: ...


class RealWorld:
    """Sessions with a server, over kazoo, below a chroot of the test's own; each comes through a proxy."""

    def __init__(self, server: str, chroot: str) -> None:
        self._server = server
        self._chroot = chroot
        self._opened: dict[KazooSession, Proxy] = {}
        self._letting_in: asyncio.Task[None] | None = None

    async def open(self) -> ZooKeeper:
        host, _, port = self._server.partition(":")
        proxy = Proxy((host, int(port)), seed=1)
        session = await KazooSession.connect(
            f"127.0.0.1:{proxy.port}{self._chroot}", session_timeout=SESSION_S, connect_timeout=60
        )
        self._opened[session] = proxy
        return session

    async def disconnect(self, session: ZooKeeper) -> None:
        assert isinstance(session, KazooSession)
        # kazoo connects again by itself.
        self._opened[session].hang_up()

    async def shut_out(self, session: ZooKeeper) -> None:
        assert isinstance(session, KazooSession)
        self._opened[session].shut = True
        self._opened[session].hang_up()

    async def expire(self, session: ZooKeeper) -> None:
        assert isinstance(session, KazooSession)
        other, sign = await self.open(), f"/of-session-{session.session_id}"
        await session.create(sign, b"", is_ephemeral=True)
        await self.shut_out(session)
        proxy = self._opened[session]

        async def let_in_when_it_is_over() -> None:
            while await other.get(sign) is not None:
                await asyncio.sleep(0.2)
            proxy.shut = False

        self._letting_in = asyncio.create_task(let_in_when_it_is_over())

    async def close(self) -> None:
        for session, proxy in self._opened.items():
            proxy.shut = False
            await session.close()
            proxy.close()


class SimulatedWorld:
    """Sessions with a simulated ensemble."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ensemble = SimulatedEnsemble(loop, random.Random(1))

    async def open(self) -> ZooKeeper:
        return SimulatedSession(self._ensemble, SESSION_S)

    async def disconnect(self, session: ZooKeeper) -> None:
        assert isinstance(session, SimulatedSession)
        session.disconnect()
        self._loop.call_later(0.1, session.reconnect)

    async def shut_out(self, session: ZooKeeper) -> None:
        assert isinstance(session, SimulatedSession)
        session.disconnect()

    async def expire(self, session: ZooKeeper) -> None:
        assert isinstance(session, SimulatedSession)
        session.disconnect()
        self._loop.call_later(SESSION_S + 1, session.reconnect)


@pytest.fixture(scope="module")
def server(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperServer]:
    require(kafka.missing(kafka.KAFKA_3))
    with ZooKeeperServer(kafka.KAFKA_3, tmp_path_factory.mktemp("zookeeper")) as running:
        running.wait()
        yield running


Run = Callable[[Scenario], None]


@pytest.fixture(params=["simulated", pytest.param("real", marks=pytest.mark.peer)])
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    if request.param == "simulated":

        def simulated(scenario: Scenario) -> None:
            virtual_time.run(lambda loop: scenario(SimulatedWorld(loop)))

        return simulated
    server: ZooKeeperServer = request.getfixturevalue("server")
    chroot = f"/{tmp_path.name}"
    server.make(chroot, b"")

    def real(scenario: Scenario) -> None:
        async def main() -> None:
            world = RealWorld(server.address, chroot)
            try:
                await scenario(world)
            finally:
                await world.close()

        asyncio.run(asyncio.wait_for(main(), 120))

    return real


async def fails(kind: type[Exception], work: Awaitable[object]) -> None:
    with pytest.raises(kind):
        await work


def test_nodes_are_made_read_changed_and_deleted(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await world.open()
        assert await session.get("/a") is None
        assert await session.create("/a", b"1") == "/a"
        await fails(NodeExistsError, session.create("/a"))
        await fails(NoNodeError, session.create("/none/b"))
        node = await session.get("/a")
        assert node is not None
        assert (node.data, node.stat.version, node.stat.owner) == (b"1", 0, NO_OWNER)
        assert node.stat.created == node.stat.modified
        changed = await session.set("/a", b"2", 0)
        assert (changed.version, changed.created) == (1, node.stat.created)
        assert changed.modified > node.stat.modified
        await fails(BadVersionError, session.set("/a", b"3", 0))
        await fails(NoNodeError, session.set("/b", b""))
        await session.create("/a/x")
        await session.create("/a/y", b"")
        assert sorted(await session.children("/a")) == ["x", "y"]
        await fails(NotEmptyError, session.delete("/a"))
        await fails(BadVersionError, session.delete("/a/x", 7))
        await session.delete("/a/x", 0)
        await session.delete("/a/y")
        await session.delete("/a")
        await fails(NoNodeError, session.delete("/a"))
        await fails(NoNodeError, session.children("/a"))

    run(scenario)


def test_names_of_sequential_nodes_are_numbered(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await world.open()
        await ensure(session, "/notices/of/isr")
        await ensure(session, "/notices/of/isr")
        made = [await session.create("/notices/of/isr/n_", is_sequential=True) for _ in range(3)]
        assert made == [f"/notices/of/isr/n_{number:010}" for number in range(3)]

    run(scenario)


def test_several_operations_are_one_or_none(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await world.open()
        await session.create("/epoch", b"1")
        results = await session.multi(
            [Check("/epoch", 0), SetData("/epoch", b"2", 0), Create("/c", b"me", is_ephemeral=True), Check("/epoch", 1)]
        )
        assert results[0] is None
        assert isinstance(results[1], Stat)
        assert results[1].version == 1
        assert results[2] == "/c"
        with pytest.raises(MultiError) as caught:
            await session.multi([Create("/d"), Check("/epoch", 0), Delete("/c")])
        assert caught.value.index == 1
        assert isinstance(caught.value.reason, BadVersionError)
        assert await session.get("/d") is None
        found = await session.get("/c")
        assert found is not None
        assert (found.data, found.stat.owner) == (b"me", session.session_id)

    run(scenario)


def test_a_watch_tells_of_one_change(run: Run) -> None:
    async def scenario(world: World) -> None:
        watching, changing = await world.open(), await world.open()
        told: asyncio.Queue[WatchEvent] = asyncio.Queue()
        await changing.create("/t")
        assert await watching.get("/t/a", told.put_nowait) is None
        assert await watching.children("/t", told.put_nowait) == []
        await changing.create("/t/a", b"1")
        assert {await told.get(), await told.get()} == {
            WatchEvent(Change.CREATED, "/t/a"),
            WatchEvent(Change.CHILDREN, "/t"),
        }
        await watching.get("/t/a", told.put_nowait)
        await changing.set("/t/a", b"2")
        await changing.set("/t/a", b"3")
        assert await told.get() == WatchEvent(Change.DATA, "/t/a")
        await watching.get("/t/a", told.put_nowait)
        await changing.delete("/t/a")
        assert await told.get() == WatchEvent(Change.DELETED, "/t/a")
        # What a read sees after the watch is not older than what the watch told of.
        assert await watching.get("/t/a") is None
        assert told.empty()

    run(scenario)


def test_ephemeral_nodes_go_with_their_session(run: Run) -> None:
    async def scenario(world: World) -> None:
        one, other = await world.open(), await world.open()
        gone: asyncio.Queue[WatchEvent] = asyncio.Queue()
        await one.create("/me", b"", is_ephemeral=True)
        await other.get("/me", gone.put_nowait)
        await one.close()
        assert await gone.get() == WatchEvent(Change.DELETED, "/me")

    run(scenario)


def test_a_lost_connection_ends_requests_and_watches_and_keeps_the_session(run: Run) -> None:
    async def scenario(world: World) -> None:
        session, other = await world.open(), await world.open()
        states: asyncio.Queue[SessionState] = asyncio.Queue()
        told: asyncio.Queue[WatchEvent] = asyncio.Queue()
        session.listen(states.put_nowait)
        await session.create("/me", b"", is_ephemeral=True)
        await session.get("/me", told.put_nowait)
        before = session.session_id
        await world.disconnect(session)
        assert await states.get() is SessionState.SUSPENDED
        assert await states.get() is SessionState.CONNECTED
        assert session.session_id == before
        await other.set("/me", b"changed")
        found = await session.get("/me")
        assert found is not None
        assert (found.data, found.stat.owner) == (b"changed", before)
        assert told.empty(), "kazoo and the simulation forget watches with the connection"

    run(scenario)


def test_requests_fail_at_once_while_there_is_no_connection(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await world.open()
        states: asyncio.Queue[SessionState] = asyncio.Queue()
        session.listen(states.put_nowait)
        await world.shut_out(session)
        assert await states.get() is SessionState.SUSPENDED
        async with asyncio.timeout(30):
            await fails(ConnectionLossError, session.get("/a"))
            await fails(ConnectionLossError, session.create("/a"))

    run(scenario)


def test_thousands_of_requests_at_once_have_their_own_answers(run: Run) -> None:
    async def scenario(world: World) -> None:
        session = await world.open()
        data = {f"/node-{number}": bytes([number % 251]) * (number % 300) for number in range(2000)}
        await asyncio.gather(*(session.create(path, content) for path, content in data.items()))
        found = await asyncio.gather(*(session.get(path) for path in data))
        assert [node and node.data for node in found] == list(data.values())
        # What was under way when the connection broke has failed, or its own answer.
        asked = [asyncio.ensure_future(session.get(path)) for path in data]
        await asyncio.sleep(0)
        await world.disconnect(session)
        for path, outcome in zip(data, await asyncio.gather(*asked, return_exceptions=True), strict=True):
            assert isinstance(outcome, ConnectionLossError) or (
                isinstance(outcome, Node) and outcome.data == data[path]
            )
        await eventually(session, "/node-7", data["/node-7"])

    run(scenario)


async def eventually(session: ZooKeeper, path: str, data: bytes) -> None:
    """Wait until a node can be read again."""
    async with asyncio.timeout(60):
        while True:
            try:
                found = await session.get(path)
            except ConnectionLossError:
                await asyncio.sleep(0.05)
                continue
            assert found is not None
            assert found.data == data
            return


def test_an_expired_session_is_followed_by_a_new_one(run: Run) -> None:
    async def scenario(world: World) -> None:
        session, other = await world.open(), await world.open()
        states: asyncio.Queue[SessionState] = asyncio.Queue()
        session.listen(states.put_nowait)
        await session.create("/me", b"", is_ephemeral=True)
        before = session.session_id
        await world.expire(session)
        seen = [await states.get()]
        while seen[-1] is not SessionState.CONNECTED or SessionState.EXPIRED not in seen:
            seen.append(await states.get())
        assert seen[0] is SessionState.SUSPENDED
        assert session.session_id != before
        assert await other.get("/me") is None
        await session.create("/me", b"", is_ephemeral=True)

    run(scenario)


@pytest.mark.peer
def test_the_time_out_is_the_smaller_of_what_is_asked_for_and_granted(server: ZooKeeperServer) -> None:
    """This server grants at most 20 ticks of 3 s."""

    async def main() -> None:
        for asked, expected in ((1.0, 1.0), (30.0, 30.0), (600.0, 60.0)):
            session = await KazooSession.connect(server.address, session_timeout=asked, connect_timeout=60)
            assert session.session_timeout == expected
            await session.close()

    asyncio.run(asyncio.wait_for(main(), 120))


def test_no_server_is_told_in_one_line() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionLossError, match=r"no ZooKeeper answers at 127\.0\.0\.1:1 \(zookeeper\.connect\)"):
            await KazooSession.connect("127.0.0.1:1", session_timeout=1, connect_timeout=0.2)

    asyncio.run(main())


def test_requests_without_a_connection_fail_and_may_have_been_carried_out() -> None:
    """The simulation breaks connections at every moment of a request."""
    carried_out = set()
    for number in range(40):

        async def scenario(world: World, number: int = number) -> None:
            session, other = await world.open(), await world.open()
            assert isinstance(session, SimulatedSession)
            await session.create("/a")
            asyncio.get_running_loop().call_later(number / 10_000, session.disconnect)
            try:
                await session.create("/a/b")
                await session.create("/a/c")
            except ConnectionLossError:
                carried_out.add(len(await other.children("/a")))
            await fails(ConnectionLossError, session.get("/a"))

        virtual_time.run(lambda loop, scenario=scenario: scenario(SimulatedWorld(loop)))  # type: ignore[misc]
    assert {0, 1, 2} <= carried_out


class SilentServer:
    """A server that grants a session on the first connection, answers no request, and is gone after `end`."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._connections: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            connection, _ = self._listener.accept()
            self._connections.append(connection)
            connection.recv(1 << 16)
            connection.sendall(struct.pack(">iiiqi16s?", 37, 0, int(SESSION_S * 1000), 1, 16, bytes(16), False))
            while connection.recv(1 << 16):
                pass

    def end(self) -> None:
        self._listener.close()
        for each in self._connections:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def test_kazoo_keeps_no_request_for_the_next_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests fail that wait when the connection is lost, that are made then, and that are made at this moment.

    A request that was not sent by then is withdrawn, so that it is not carried out after the caller was told.
    """
    server, lost = SilentServer(), threading.Event()

    def suspended(state: str) -> None:
        if state == KazooState.SUSPENDED:
            lost.set()

    async def main() -> None:
        session = await KazooSession.connect(server.address, session_timeout=SESSION_S, connect_timeout=60)
        client: KazooClient = session._client
        client.add_listener(suspended)
        asked = client.get_async

        def asked_too_late(*arguments: Any) -> Any:
            # There was a connection when the session looked.
            server.end()
            assert lost.wait(60)
            return asked(*arguments)

        waiting = asyncio.ensure_future(session.get("/waits"))
        await asyncio.sleep(0)
        monkeypatch.setattr(client, "get_async", asked_too_late)
        await fails(ConnectionLossError, session.get("/late"))
        await fails(ConnectionLossError, waiting)
        assert not session._open
        assert "/late" not in [getattr(request, "path", None) for request, _ in client._queue]
        monkeypatch.undo()
        await fails(ConnectionLossError, session.get("/after"))
        await session.close()

    asyncio.run(asyncio.wait_for(main(), 120))


@pytest.mark.peer
def test_a_node_without_data_has_none_for_other_clients(server: ZooKeeperServer) -> None:
    """Kafka's brokers do not start where the node of producer ids has empty data."""

    async def main() -> None:
        session = await KazooSession.connect(server.address, session_timeout=SESSION_S, connect_timeout=60)
        await session.create("/without_data")
        await session.close()

    asyncio.run(asyncio.wait_for(main(), 120))
    client = KazooClient(server.address)
    client.start()
    try:
        assert client.get("/without_data")[0] is None
    finally:
        client.stop()
        client.close()
