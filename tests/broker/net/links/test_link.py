"""Tests of links to other brokers: peers that lie, die or do not respond; order, bounds, pauses, SASL."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from contextlib import ExitStack
from typing import Any

import pytest

from broker.net.links.link import LinkSettings
from broker.net.links.link_channel import Channel
from broker.net.links.link_errors import (
    LinkBrokenError,
    LinkClosedError,
    LinkProtocolError,
    LinkRefusedError,
    LinkTimeoutError,
)
from broker.net.sockets.network import LoopNetwork
from kafkalog.protocol.errors import UnsupportedVersionError
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.broker.net.links.support import DEADLINE_S, SCRAM, SETTINGS, linked, numbered, run, scram_handlers, until
from tests.support.scripted import Halted, ScriptedBroker, Silence, frame

# Peers that lie, die or say nothing


def ask(server: ScriptedBroker, settings: LinkSettings = SETTINGS, **more: Any) -> Any:
    """The response to one Metadata request."""

    async def main() -> Any:
        async with linked(server.address, settings) as link:
            try:
                return await link.request(MetadataRequest(topics=[]), **more)
            finally:
                assert link.in_flight == 0

    return run(main())


@pytest.mark.parametrize(
    ("answer", "error", "match"),
    [
        (struct.pack(">i", 0x7FFFFFFF), LinkProtocolError, r"announces a response of 2147483647 bytes; at most"),
        (struct.pack(">i", SETTINGS.max_response_bytes + 1), LinkProtocolError, "announces"),
        (struct.pack(">i", -5), LinkProtocolError, "-5 bytes"),
        (b"\x15\x03\x03\x00\x02\x02\x46", LinkProtocolError, "TLS"),
        (struct.pack(">i", 100) + bytes(50), LinkBrokenError, "in the middle of a response"),
        (b"\x00\x00", LinkBrokenError, "in the middle of a response"),
        (None, LinkBrokenError, "instead of answering"),
        (frame(struct.pack(">i", 1) + bytes(5) + b"\xff" * 400), LinkProtocolError, "bytes that do not parse"),
        (frame(struct.pack(">i", 77) + bytes(100)), LinkProtocolError, "answered request 77, where 1 was next"),
    ],
)
def test_a_bad_answer_ends_the_connection(answer: bytes | None, error: type[Exception], match: str) -> None:
    with ScriptedBroker({MetadataRequest: lambda request: answer}) as server, pytest.raises(error, match=match):
        ask(server)


def test_a_peer_that_dies_in_the_middle_of_a_response_fails_all_requests_in_flight() -> None:
    dead = threading.Event()
    with ScriptedBroker({MetadataRequest: lambda request: Halted(MetadataResponse(), dead)}) as server:

        async def main() -> None:
            async with linked(server.address) as link:
                lost: list[str] = []
                link.on_lost = lambda: lost.append("lost")
                futures = [link.send(MetadataRequest(topics=[])) for _ in range(8)]
                await until(lambda: server.seen[MetadataRequest] == 1, "the first request")
                server.hang_up()
                dead.set()
                errors = await asyncio.gather(*futures, return_exceptions=True)
                assert [type(error) for error in errors] == [LinkBrokenError] * 8
                assert not link.connected
                assert lost == ["lost"]

        run(main())


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_a_connection_that_ends_right_after_a_step_of_the_handshake(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    steps = 0
    whole = Channel.buffer_updated

    def then_lost(self: Channel, nbytes: int) -> None:
        nonlocal steps
        whole(self, nbytes)
        steps += 1
        if steps == step:
            self.fail(LinkBrokenError("it was reset"))

    monkeypatch.setattr(Channel, "buffer_updated", then_lost)
    with ScriptedBroker(scram_handlers("secret")) as server:

        async def main() -> None:
            async with linked(server.address, login=SCRAM) as link:
                with pytest.raises(LinkBrokenError, match=r"^it was reset"):
                    await link.request(MetadataRequest(topics=[]))

        run(main())


def test_a_peer_that_never_answers_times_out_and_proves_nothing() -> None:
    asked: list[MetadataRequest] = []

    def keep_silent(request: MetadataRequest) -> Silence:
        asked.append(request)
        return Silence()

    with ScriptedBroker({MetadataRequest: keep_silent}) as server:

        async def main() -> None:
            async with linked(server.address) as link:
                await link.connect()
                lost: list[str] = []
                link.on_lost = lambda: lost.append("lost")
                silent = link.send(MetadataRequest(topics=[]), timeout=0.05)
                behind = link.send(MetadataRequest(topics=[]))
                with pytest.raises(LinkTimeoutError, match=r"did not answer METADATA in time"):
                    await silent
                with pytest.raises(LinkTimeoutError, match="did not answer METADATA in time, so that"):
                    await behind
                # What the caller gave up does not keep its connection from being found silent.
                await link.connect()
                given_up = link.send(MetadataRequest(topics=[]), timeout=0.05)
                await until(lambda: len(asked) == 3, "the request on a new connection")
                given_up.cancel()
                await until(lambda: not link.connected, "the end of the connection")
                assert lost == []

        run(main())


def test_a_peer_that_accepts_and_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        async def main() -> None:
            settings = LinkSettings(client_id="test", connect_timeout=0.1)
            async with linked(address, settings) as link:
                with pytest.raises(LinkTimeoutError, match="did not answer API_VERSIONS in time"):
                    await link.connect()

        run(main())


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

    async def main(host: str) -> None:
        async with linked(f"{host}:{port}") as link:
            with pytest.raises(LinkRefusedError, match=rf"{host}:{port} refuses connections"):
                await link.connect()

    for host in ("127.0.0.1", "localhost"):
        run(main(host))


def test_a_host_that_does_not_accept_in_time_is_not_taken_for_dead() -> None:
    """The kernel drops what a full backlog has no room for, as a host does that is cut off."""
    with ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(address)

        async def main() -> None:
            settings = LinkSettings(client_id="test", connect_timeout=0.2)
            async with linked(f"127.0.0.1:{address[1]}", settings) as link:
                with pytest.raises(LinkTimeoutError, match="no connection to 127"):
                    await link.connect()

        run(main())


def resolve_to(monkeypatch: pytest.MonkeyPatch, *hosts: str) -> None:
    """Have the event loop find these addresses for every name."""

    async def found(self: Any, host: str, port: int, **more: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in hosts]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", found)


def test_a_host_with_several_addresses_is_dead_only_if_all_of_them_refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tests listen on 127.0.0.1, and one of them may have the same port.
    with socket.create_server(("127.0.0.2", 0)) as listener:
        port = listener.getsockname()[1]

        async def connected(*hosts: str) -> None:
            resolve_to(monkeypatch, *hosts)
            _, made = await LoopNetwork(asyncio.get_running_loop()).connect(asyncio.Protocol, "peer", port)
            assert isinstance(made, asyncio.Protocol)

        run(connected("127.0.0.4", "127.0.0.2"))
        with pytest.raises(ConnectionRefusedError):
            run(connected("127.0.0.4", "127.0.0.3"))
        # No TCP connection goes to the broadcast address, and that says nothing about the peer.
        for hosts in (("127.0.0.4", "255.255.255.255"), ("255.255.255.255", "127.0.0.4")):
            with pytest.raises(OSError, match=r"unreachable|denied|permitted") as caught:
                run(connected(*hosts))
            assert not isinstance(caught.value, ConnectionRefusedError)


def test_a_name_that_is_none() -> None:
    async def main() -> None:
        for name in ("no-such-host.invalid", "a..b"):
            async with linked(f"{name}:9092") as link:
                with pytest.raises(LinkBrokenError, match=f"cannot connect to {name}:9092"):
                    await link.connect()

    run(main())


# Order, bounds, ends


def test_so_many_requests_are_in_flight_and_no_more() -> None:
    go_on = threading.Event()
    number = numbered()

    def slow(request: MetadataRequest) -> Any:
        go_on.wait(DEADLINE_S)
        return number(request)

    with ScriptedBroker({MetadataRequest: slow}) as server:

        async def main() -> None:
            settings = LinkSettings(client_id="test", max_in_flight=3, request_timeout=DEADLINE_S)
            async with linked(server.address, settings) as link:
                await link.connect()
                futures = [link.send(MetadataRequest(topics=[])) for _ in range(10)]
                assert (link.in_flight, link.waiting) == (3, 7)
                futures[1].cancel()
                futures[8].cancel()
                late = link.send(MetadataRequest(topics=[]), timeout=0.02)
                with pytest.raises(LinkTimeoutError, match="METADATA could not be sent"):
                    await late
                assert link.in_flight == 3
                go_on.set()
                answers = await asyncio.gather(*futures, return_exceptions=True)
                found = [getattr(each, "brokers", [None])[0] for each in answers]
                # One was cancelled before it was sent, and one after; the order of the others holds.
                assert [each and each.node_id for each in found] == [0, None, 2, 3, 4, 5, 6, 7, None, 8]
                assert server.seen[MetadataRequest] == 9

        run(main())


def test_an_api_that_the_peer_lacks_fails_its_request_alone() -> None:
    with ScriptedBroker({MetadataRequest: numbered()}) as server:

        async def main() -> None:
            async with linked(server.address) as link:
                first = link.send(MetadataRequest(topics=[]))
                lacking = link.send(DeleteGroupsRequest(groups_names=["g"]))
                second = link.send(MetadataRequest(topics=[]))
                with pytest.raises(UnsupportedVersionError, match="DELETE_GROUPS"):
                    await lacking
                assert [(await each).brokers[0].node_id for each in (first, second)] == [0, 1]
                assert server.connections == 1

        run(main())


def test_closing_fails_what_waits_and_leaves_nothing() -> None:
    with ScriptedBroker({MetadataRequest: lambda request: Silence()}) as server:

        async def main() -> None:
            async with linked(server.address) as link:
                futures = [link.send(MetadataRequest(topics=[])) for _ in range(8)]
                await until(lambda: link.in_flight > 0, "requests in flight")
                await link.close()
                errors = await asyncio.gather(*futures, return_exceptions=True)
                assert {type(error) for error in errors} == {LinkClosedError}
                with pytest.raises(LinkClosedError):
                    link.send(MetadataRequest(topics=[]))
            # While it connects.
            async with linked(server.address) as link:
                waiting = link.send(MetadataRequest(topics=[]))
                await asyncio.sleep(0)
                await link.close()
                with pytest.raises(LinkClosedError):
                    await waiting

        run(main())


def test_a_connection_that_the_peer_closes_while_idle_is_made_anew() -> None:
    with ScriptedBroker({MetadataRequest: numbered()}) as server:

        async def main() -> None:
            async with linked(server.address) as link:
                await link.request(MetadataRequest(topics=[]))
                server.hang_up()
                await until(lambda: not link.connected, "the end of the idle connection")
                await link.request(MetadataRequest(topics=[]))
                assert server.connections == 2

        run(main())


def test_bytes_that_nobody_asked_for_end_the_connection() -> None:
    with ScriptedBroker({MetadataRequest: numbered()}) as server:

        async def main() -> None:
            async with linked(server.address) as link:
                await link.request(MetadataRequest(topics=[]))
                server._open[0].sendall(b"\0")
                await until(lambda: not link.connected, "the end of the connection")
                assert "no response was due" in str(link._last_failure)

        run(main())


# Pauses


class Refusing:
    """A network on which nobody listens; notes when it was tried."""

    def __init__(self) -> None:
        self.tried: list[float] = []

    async def connect(self, make_protocol: Any, host: str, port: int) -> Any:
        self.tried.append(asyncio.get_running_loop().time())
        raise ConnectionRefusedError


def test_pauses_between_attempts_grow_to_their_bound() -> None:
    async def main() -> None:
        network = Refusing()
        settings = LinkSettings(client_id="test", backoff=0.004, backoff_max=0.016)
        async with linked("nowhere:1", settings, network=network) as link:
            for _ in range(6):
                with pytest.raises(LinkRefusedError):
                    await link.connect()
        pauses = [after - before for before, after in zip(network.tried, network.tried[1:], strict=False)]
        assert len(pauses) == 5
        for pause, least in zip(pauses, [0.004, 0.008, 0.016, 0.016, 0.016], strict=True):
            assert pause >= 0.79 * least

    run(main())


def test_a_request_that_ends_in_a_pause_says_what_failed_before() -> None:
    async def main() -> None:
        settings = LinkSettings(client_id="test", backoff=1000.0, backoff_max=1000.0)
        async with linked("nowhere:1", settings, network=Refusing()) as link:
            with pytest.raises(LinkRefusedError):
                await link.connect()
            with pytest.raises(LinkTimeoutError, match="METADATA could not be sent") as caught:
                await link.request(MetadataRequest(topics=[]), timeout=0.01)
            assert isinstance(caught.value.__cause__, LinkRefusedError)

    run(main())


class Noting:
    """Another network: the loop's, with notes of what was opened."""

    def __init__(self) -> None:
        self.opened: list[tuple[str, int]] = []

    async def connect(self, make_protocol: Any, host: str, port: int) -> Any:
        self.opened.append((host, port))
        return await LoopNetwork(asyncio.get_running_loop(), receive_buffer_bytes=65536).connect(
            make_protocol, host, port
        )


def test_connections_are_opened_by_the_network_that_was_given() -> None:
    with ScriptedBroker({MetadataRequest: numbered()}) as server:

        async def main() -> None:
            network = Noting()
            async with linked(server.address, network=network) as link:
                await link.request(MetadataRequest(topics=[]))
            assert network.opened == [("127.0.0.1", server.port)]

        run(main())


def test_a_connection_of_a_failed_handshake_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Channel] = []

    async def fail(channel: Channel, workers: object) -> None:
        opened.append(channel)
        raise MemoryError

    monkeypatch.setattr(Channel, "shake_hands", fail)
    with ScriptedBroker({MetadataRequest: numbered()}) as server:

        async def main() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
            async with linked(server.address) as link:
                with pytest.raises(LinkBrokenError, match="MemoryError"):
                    await link.request(MetadataRequest(topics=[]))
                await asyncio.wait_for(asyncio.shield(opened[0].closed), DEADLINE_S)

        run(main())
