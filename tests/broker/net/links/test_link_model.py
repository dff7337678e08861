"""Test links over a random network: peers refuse, hang, break, lie and do not respond, on simulated time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from broker.net.links.link import Link, LinkSettings
from broker.net.links.link_errors import (
    LinkBrokenError,
    LinkClosedError,
    LinkError,
    LinkFullError,
    LinkProtocolError,
    LinkRefusedError,
    LinkTimeoutError,
)
from kafkalog.protocol.codec import decode_message, decode_request_header, encode_response
from kafkalog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kafkalog.protocol.schema import Response
from tests.simulation.virtual_time import VirtualLoop, run
from tests.support.in_process.runtime import InlineWorkers
from tests.support.scripted import REQUESTS, api_versions

MAX_IN_FLIGHT = 3
CONNECT_TIMEOUT = 2.0
KINDS = (LinkBrokenError, LinkProtocolError, LinkRefusedError, LinkTimeoutError)
LATE = 1e-6
"""Timers of the same moment run one after another."""


class Peer:
    """The other broker, at one moment well and at another not."""

    def __init__(self, loop: asyncio.AbstractEventLoop, chance: random.Random) -> None:
        self.loop = loop
        self.chance = chance
        self.fault_share = 0.0
        self.seen: list[str] = []
        """The names asked for, in the order in which they came."""
        self.refused = False
        """True if the last attempt to connect was refused."""
        self.throttle_ms = 0
        """The time in milliseconds that each response asks the client to wait."""
        self.asked_at: list[float] = []
        """The times at which each name was asked for."""

    def fails(self) -> bool:
        return self.chance.random() < self.fault_share

    async def connect(self, make_protocol: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        """The network's side: open a connection to this peer, or not."""
        self.refused = False
        if self.fails():
            match self.chance.randrange(3):
                case 0:
                    self.refused = True
                    raise ConnectionRefusedError
                case 1:
                    await self.loop.create_future()
                case _:
                    raise OSError(113, "No route to host")
        await asyncio.sleep(self.chance.uniform(0, 0.3))
        transport = Wire(self, make_protocol())
        return transport, transport.protocol


class Wire(asyncio.Transport):
    """A connection to a peer: bytes of requests come in, bytes of responses go out, late and in pieces."""

    def __init__(self, peer: Peer, protocol: asyncio.BufferedProtocol) -> None:
        super().__init__()
        self.peer = peer
        self.protocol = protocol
        self.closed = False
        self.silent = False
        self.unanswered = 0
        self._came = b""
        self._next_at = 0.0
        protocol.connection_made(self)

    # What the link calls

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.closed:
            return
        self._came += bytes(data)
        while len(self._came) >= 4:
            size = int.from_bytes(self._came[:4], "big")
            if len(self._came) < 4 + size:
                return
            request, self._came = self._came[4 : 4 + size], self._came[4 + size :]
            self._serve(request)

    def abort(self) -> None:
        if not self.closed:
            self.closed = True
            self.peer.loop.call_soon(self.protocol.connection_lost, None)

    # The peer's side

    def _serve(self, request: bytes) -> None:
        header, pos = decode_request_header(request)
        cls = REQUESTS[header.api_key]
        message, _ = decode_message(cls, header.api_version, request, pos)
        self.unanswered += 1
        assert self.unanswered <= MAX_IN_FLIGHT
        response: Response = api_versions()
        if isinstance(message, MetadataRequest):
            assert message.topics is not None
            name = message.topics[0].name or ""
            self.peer.seen.append(name)
            self.peer.asked_at.append(self.peer.loop.time())
            topic = MetadataResponseTopic(name=name)
            response = MetadataResponse(throttle_time_ms=self.peer.throttle_ms, topics=[topic])
        chunks: list[Any] = encode_response(response, header.api_version, header.correlation_id)
        self._answer(b"".join(chunks))

    def _answer(self, data: bytes) -> None:
        chance = self.peer.chance
        fault = chance.randrange(4) if self.peer.fails() else None
        if fault == 0:
            self.silent = True
        if self.silent:
            return
        if fault == 1:
            data = data[: chance.randrange(len(data))]
        elif fault == 2:
            flipped = chance.randrange(8)
            data = data[:flipped] + bytes([data[flipped] ^ 0x55]) + data[flipped + 1 :]
        at = max(self._next_at, self.peer.loop.time()) + chance.choice([0.0, 0.01, 0.4])
        cut = chance.randrange(max(len(data), 1))
        for piece, is_last in ((data[:cut], False), (data[cut:], True)):
            self.peer.loop.call_at(at, self._deliver, piece, is_last)
            at += chance.choice([LATE, 0.05])
        if fault in (1, 3):
            self.peer.loop.call_at(at, self._end, None if fault == 1 else ConnectionResetError(104, "reset"))
            self.silent = True
        self._next_at = at + LATE

    def _deliver(self, piece: bytes, is_last: bool) -> None:
        view = memoryview(piece)
        while view and not self.closed:
            buffer = memoryview(self.protocol.get_buffer(-1))
            count = min(len(buffer), len(view))
            buffer[:count] = view[:count]
            view = view[count:]
            if is_last and not view:
                self.unanswered -= 1
            self.protocol.buffer_updated(count)

    def _end(self, error: OSError | None) -> None:
        if self.closed:
            return
        if error is None:
            self.protocol.eof_received()
            self.abort()
        else:
            self.closed = True
            self.protocol.connection_lost(error)


@pytest.mark.parametrize("seed", range(60))
def test_every_request_ends_in_time_with_its_own_response_or_an_error(seed: int) -> None:
    async def main(loop: VirtualLoop) -> None:
        chance = random.Random(seed)
        peer = Peer(loop, chance)
        settings = LinkSettings(
            client_id="model",
            connect_timeout=CONNECT_TIMEOUT,
            max_in_flight=MAX_IN_FLIGHT,
            max_response_bytes=1 << 16,
            backoff=0.05,
            backoff_max=0.5,
        )
        link = Link("peer", 1, settings, loop=loop, workers=InlineWorkers(loop), chance=chance, network=peer)
        given: list[str] = []
        outcomes: dict[str, str] = {}
        wrongly_dead: list[str] = []
        unsent: list[str] = []
        """Requests whose errors say that the peer has never seen them."""

        def give(timeout: float) -> asyncio.Task[None]:
            name = f"topic-{len(given)}"
            given.append(name)
            response = link.send(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), timeout=timeout)
            deadline = loop.time() + timeout

            async def judge() -> None:
                try:
                    answer = await response
                except LinkError as error:
                    outcomes[name] = type(error).__name__
                    if isinstance(error, LinkRefusedError) and not peer.refused:
                        wrongly_dead.append(name)
                    if isinstance(error, LinkRefusedError) or "could not be sent" in str(error):
                        unsent.append(name)
                else:
                    outcomes[name] = "answered"
                    assert answer.topics[0].name == name
                    assert peer.seen.count(name) == 1
                assert loop.time() <= deadline + 100 * LATE
                assert link.in_flight <= MAX_IN_FLIGHT

            return loop.create_task(judge())

        judges: list[asyncio.Task[None]] = []
        for _ in range(120):
            # Well for a while, then not, and again.
            peer.fault_share = chance.choice([0.0, 0.0, 0.1, 0.4])
            judges += [give(chance.choice([0.3, 2.0, 10.0])) for _ in range(chance.randrange(5))]
            await asyncio.sleep(chance.choice([0.0, 0.05, 1.0]))
        await asyncio.gather(*judges)
        assert set(outcomes) == set(given)
        assert set(outcomes.values()) <= {"answered", *(kind.__name__ for kind in KINDS)}
        assert not wrongly_dead
        assert not set(unsent) & set(peer.seen)
        # In the order in which they were given, and never twice.
        numbers = [int(name.removeprefix("topic-")) for name in peer.seen]
        assert numbers == sorted(set(numbers))
        assert "answered" in outcomes.values()
        # A peer that is well again answers, after the longest pause and a connection that may still hang.
        peer.fault_share = 0.0
        await asyncio.sleep(CONNECT_TIMEOUT + 1.0)
        await give(10.0)
        assert outcomes[given[-1]] in ("answered", "LinkBrokenError", "LinkTimeoutError")
        await give(10.0)
        assert outcomes[given[-1]] == "answered"
        last = [link.send(MetadataRequest(topics=[MetadataRequestTopic(name="last")])) for _ in range(5)]
        await link.close()
        assert all(isinstance(each.exception(), LinkClosedError) for each in last)
        assert (link.in_flight, link.waiting) == (0, 0)
        assert asyncio.all_tasks(loop) == {asyncio.current_task()}

    run(main)


def named(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


def quiet_link(loop: VirtualLoop, peer: Peer, **settings: Any) -> Link:
    """A link to a peer that is well."""
    chosen = LinkSettings(client_id="model", max_in_flight=MAX_IN_FLIGHT, **settings)
    return Link("peer", 1, chosen, loop=loop, workers=InlineWorkers(loop), chance=random.Random(1), network=peer)


def test_a_link_waits_as_long_as_a_response_asks_for() -> None:
    async def main(loop: VirtualLoop) -> None:
        peer = Peer(loop, random.Random(1))
        link = quiet_link(loop, peer)
        peer.throttle_ms = 5000
        await link.request(named("a"))
        told_at = loop.time()
        peer.throttle_ms = 0
        # Those that would be sent at once otherwise, and one for which it is too long.
        later = [link.send(named(name)) for name in "bc"]
        with pytest.raises(LinkTimeoutError, match=r"METADATA could not be sent to peer:1 in time: it asked .* wait"):
            await link.request(named("d"), timeout=4.9)
        await asyncio.gather(*later)
        assert peer.seen == ["a", "b", "c"]
        assert all(at >= told_at + 5 for at in peer.asked_at[1:])
        await link.request(named("e"))
        assert loop.time() < told_at + 5 + 5
        await link.close()

    run(main)


def test_the_longest_of_several_pauses_counts_and_ends_with_the_connection() -> None:
    async def main(loop: VirtualLoop) -> None:
        peer = Peer(loop, random.Random(1))
        link = quiet_link(loop, peer)
        await link.connect()
        peer.throttle_ms = 60_000
        first = link.send(named("a"))
        peer.throttle_ms = 1000
        second = link.send(named("b"))
        await asyncio.gather(first, second)
        told_at = loop.time()
        peer.throttle_ms = 0
        await link.request(named("c"), timeout=100)
        # Their responses came within a second of each other.
        assert peer.asked_at[-1] >= told_at + 59 - 1
        peer.throttle_ms = 60_000
        await link.request(named("d"))
        waiting = link.send(named("e"))
        await link.close()
        assert isinstance(waiting.exception(), LinkClosedError)

    run(main)


def test_so_many_requests_wait_and_no_more() -> None:
    async def main(loop: VirtualLoop) -> None:
        peer = Peer(loop, random.Random(1))
        link = quiet_link(loop, peer, max_waiting=4)
        given = [link.send(named(str(number))) for number in range(4)]
        with pytest.raises(LinkFullError, match="4 requests to peer:1 wait to be sent"):
            link.send(named("one too many"))
        given[2].cancel()
        given.append(link.send(named("4")))
        with pytest.raises(LinkFullError):
            await link.connect()
        answers = await asyncio.gather(*(each for each in given if not each.cancelled()))
        assert [answer.topics[0].name for answer in answers] == ["0", "1", "3", "4"]
        assert link.waiting == 0
        await link.close()

    run(main)


def test_the_same_seed_is_the_same_life() -> None:
    def life() -> list[tuple[float, str]]:
        seen: list[tuple[float, str]] = []

        async def main(loop: VirtualLoop) -> None:
            chance = random.Random(5)
            peer = Peer(loop, chance)
            peer.fault_share = 0.3
            settings = LinkSettings(client_id="model", connect_timeout=1.0, max_in_flight=MAX_IN_FLIGHT)
            link = Link("peer", 1, settings, loop=loop, workers=InlineWorkers(loop), chance=chance, network=peer)
            for number in range(60):
                request = MetadataRequest(topics=[MetadataRequestTopic(name=str(number))])
                try:
                    await link.request(request, timeout=1.0)
                except LinkError as error:
                    seen.append((loop.time(), str(error)))
                else:
                    seen.append((loop.time(), "answered"))
            await link.close()

        run(main)
        return seen

    assert life() == life()
