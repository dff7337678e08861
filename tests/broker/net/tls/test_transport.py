"""Test the transport over TLS against Python's own client side, in memory."""

from __future__ import annotations

import os
import random
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from broker.net.tls import transport as transports
from broker.net.tls.transport import PART_BYTES, TlsTransport
from broker.net.tls.turns import STEPS_A_TURN, HandshakeTurns
from broker.security.tls.failures import HandshakeError
from tests.broker.net.over_tls import TlsPeer
from tests.broker.net.tls.moved_clock import Loop
from tests.broker.net.transports import InMemoryPeer, InMemoryTransport
from tests.support.secured.authority import DAY, Authority, authority, client_context, server_context

ROUNDS = 20_000


class Pair:
    """A served connection that is watched for reading, and its client."""

    def __init__(
        self,
        server: ssl.SSLContext | None = None,
        client: ssl.SSLContext | None = None,
        *,
        seed: int = 1,
        capacity: int = 50_000,
        refusal: str = "",
    ) -> None:
        self.loop = Loop()
        self.chance = random.Random(seed)
        self.carrier = InMemoryTransport(self.loop, self.chance, capacity)
        self.raw = InMemoryPeer(self.carrier)
        self.peer = TlsPeer(self.raw, client or client_context(), self.chance)
        self.established: list[str | None] = []
        self.refused: list[str] = []
        self.refusal = refusal
        self.transport = TlsTransport(
            self.carrier,
            server or server_context(),
            self.loop,
            HandshakeTurns(self.loop, self.loop.time),
            memoryview(bytearray(PART_BYTES)),
            self._established,
            self.refused.append,
        )
        self.received = bytearray()
        self.has_ended = False
        self.failure: OSError | None = None
        self.is_paused = False
        self.transport.watch_readable(self._readable)

    def _established(self, tls: ssl.SSLObject) -> None:
        if self.refusal:
            raise HandshakeError(self.refusal)
        self.established.append(tls.version())

    def _readable(self) -> None:
        window = memoryview(bytearray(self.chance.choice((1, 1000, 40_000))))
        try:
            count = self.transport.recv_into(window)
        except BlockingIOError:
            return
        except OSError as error:
            self.failure = error
        else:
            self.received += window[:count]
            self.has_ended = not count
        if self.has_ended or self.failure is not None:
            self.pause()

    def pause(self) -> None:
        if not self.is_paused:
            self.is_paused = True
            self.transport.unwatch_readable()

    def rounds(self) -> Iterator[None]:
        for _ in range(ROUNDS):
            yield
            self.loop.turn()
        raise AssertionError("it takes too long")

    def until(self, is_so: Callable[[], object], *, moves: bool = True) -> None:
        for _ in self.rounds():
            if is_so():
                return
            if moves:
                self.peer.send(b"")

    def open(self) -> None:
        self.until(lambda: self.peer.is_ready and self.established and not self.transport.has_unsent)

    def send(self, data: bytes) -> None:
        """Send all of it, and let the client receive it."""
        received = bytearray()
        rest = memoryview(data)
        for _ in self.rounds():
            if len(rest):
                with suppress(BlockingIOError):
                    rest = rest[self.transport.send(rest) :]
            received += self.peer.recv(50_000)
            if len(received) == len(data):
                break
        assert received == data


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.pause()
    made.transport.close()
    made.transport.close()
    assert made.carrier.closed


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("seed", range(12))
def test_whatever_the_chunks_everything_arrives_in_both_directions(
    tmp_path: Path, seed: int, version: ssl.TLSVersion
) -> None:
    client = client_context()
    client.minimum_version = client.maximum_version = version
    pair = Pair(client=client, seed=seed)
    chance = pair.chance
    down, up = chance.randbytes(600_000), chance.randbytes(300_000)
    path = tmp_path / "log"
    path.write_bytes(down)
    fd = os.open(path, os.O_RDONLY)
    sent, unsent, received = 0, up, bytearray()
    for _ in pair.rounds():
        if len(received) == len(down) and len(pair.received) == len(up):
            break
        unsent = unsent[pair.peer.send(unsent) :]
        received += pair.peer.recv(chance.choice((1, 5000, 100_000)))
        if sent == len(down):
            continue
        most = chance.choice((1, 100, 20_000, 500_000))
        try:
            match chance.randrange(3):
                case 0:
                    sent += pair.transport.send(down[sent : sent + most])
                case 1:
                    chunks = [down[at : at + 700] for at in range(sent, min(sent + most, len(down)), 700)]
                    sent += pair.transport.send_many(chunks, False)
                case _:
                    sent += pair.transport.send_file(fd, sent, most)
        except BlockingIOError:
            assert pair.transport.has_unsent or not pair.established
    assert received == down
    assert pair.received == up
    assert pair.established == [{ssl.TLSVersion.TLSv1_2: "TLSv1.2", ssl.TLSVersion.TLSv1_3: "TLSv1.3"}[version]]
    assert pair.transport.send_file(fd, len(down), 5) == 0, "the end of the file"
    os.close(fd)
    pair.pause()
    pair.transport.close()


def test_decrypted_bytes_are_told_of_though_nothing_more_comes(pair: Pair) -> None:
    pair.open()
    pair.pause()
    first = bytearray(1)

    def take_one() -> None:
        with suppress(BlockingIOError):
            assert pair.transport.recv_into(memoryview(first)) == 1
            pair.transport.unwatch_readable()

    assert pair.peer.tls.write(b"xyz")
    pair.raw.send(pair.peer.outgoing.read())
    pair.transport.watch_readable(take_one)
    pair.until(lambda: first == b"x", moves=False)
    assert not pair.carrier.inbound
    pair.is_paused = False
    pair.transport.watch_readable(pair._readable)
    pair.until(lambda: pair.received == b"yz", moves=False)


def test_a_peer_that_sends_faster_than_it_is_served_waits(pair: Pair) -> None:
    pair.open()
    pair.pause()
    window = memoryview(bytearray(10))

    def take_little() -> None:
        with suppress(BlockingIOError):
            pair.transport.recv_into(window)

    for _ in range(100):
        assert pair.peer.tls.write(bytes(16_000))
        pair.raw.send(pair.peer.outgoing.read())
    pair.transport.watch_readable(take_little)
    for _ in range(300):
        pair.loop.turn()
        assert pair.transport._incoming.pending <= PART_BYTES
    pair.transport.unwatch_readable()


def test_a_peer_that_reads_nothing_costs_one_part(pair: Pair) -> None:
    pair.open()
    called = []
    assert pair.transport.send(bytes(10 * PART_BYTES)) == PART_BYTES
    pair.transport.watch_writable(lambda: called.append(pair.transport.has_unsent))
    for _ in range(100):
        pair.loop.turn()
        with pytest.raises(BlockingIOError):
            pair.transport.send(b"x")
    assert not called
    rest = len(pair.transport._rest) + pair.transport._outgoing.pending
    assert 0 < rest < PART_BYTES * 1.05
    pair.until(lambda: pair.peer.recv(1 << 20) and called)
    assert called[0] is False, "only when all was taken"
    pair.transport.unwatch_writable()


def test_a_peer_that_sends_one_byte_a_second_is_closed_after_the_deadline() -> None:
    pair = Pair()
    pair.peer._move()
    hello = bytes(pair.carrier.inbound) + pair.peer._rest
    pair.carrier.inbound.clear()
    for byte in hello[:12]:
        pair.raw.send(bytes([byte]))
        for _ in range(5):
            pair.loop.turn()
        pair.loop.pass_time(1)
    pair.until(lambda: pair.failure)
    assert pair.refused == ["the handshake was not done within 10 s"]
    assert not pair.established
    pair.transport.close()
    assert pair.carrier.closed


def test_a_handshake_in_time_has_no_deadline_any_more(pair: Pair) -> None:
    pair.open()
    pair.loop.pass_time(100)
    pair.send(b"answer")
    assert not pair.failure


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("own", ["none", "of a stranger", "expired"])
def test_a_client_without_a_good_certificate_is_told_why(own: str, version: ssl.TLSVersion) -> None:
    """In TLS 1.3 the client has done its part of the handshake then, and may have sent a request."""
    path = {
        "none": None,
        "of a stranger": Authority("stranger").sign("client"),
        "expired": authority().sign("client", end=-DAY / 24),
    }[own]
    client = client_context(path)
    client.minimum_version = client.maximum_version = version
    pair = Pair(server_context(ssl.CERT_REQUIRED), client)
    alert: list[ssl.SSLError] = []

    def told() -> bool:
        try:
            pair.peer.send(b"a request")
            pair.peer.recv(100)
        except ssl.SSLError as error:
            alert.append(error)
        return bool(alert or pair.peer.failure)

    pair.until(told)
    error = pair.peer.failure or alert[0]
    assert "ALERT" in (error.reason or ""), error
    (why,) = pair.refused
    assert {"none": "shows no certificate", "of a stranger": "not accepted", "expired": "expired"}[own] in why
    pair.until(lambda: pair.carrier.has_sent_end)
    assert pair.failure is None, "the peer has time to read the alert"
    pair.loop.pass_time(transports.LINGER_SECONDS)
    pair.until(lambda: pair.failure, moves=False)
    pair.transport.close()


def test_a_client_that_nobody_knows_is_not_let_in() -> None:
    pair = Pair(refusal="nobody knows it")
    pair.until(lambda: pair.carrier.has_sent_end)
    assert pair.refused == ["nobody knows it"]
    pair.raw.close()
    pair.until(lambda: pair.failure, moves=False)
    assert not pair.received
    pair.transport.close()


@pytest.mark.parametrize(
    ("data", "answer", "why"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 400 ", "HTTP"),
        (b"\0\0\0\x20\0\x12\0\3\0\0\0\1", bytes.fromhex("15030100020246"), "set security.protocol=SSL"),
        (b"\x16\x03\x01\x00\x05hello", b"\x15\x03", "unexpected message"),
        (b"\x16\x03\x01\xff\xff" + bytes(100), b"\x15\x03", "length"),
    ],
)
def test_what_is_no_tls_is_answered(data: bytes, answer: bytes, why: str) -> None:
    pair = Pair()
    pair.raw.send(data)
    pair.until(lambda: pair.carrier.has_sent_end, moves=False)
    assert pair.raw.recv(1000).startswith(answer)
    assert why in pair.refused[0]
    pair.raw.close()
    pair.until(lambda: pair.failure, moves=False)
    pair.transport.close()


def test_random_bytes_end_in_a_refusal() -> None:
    chance = random.Random(3)
    for _ in range(200):
        pair = Pair(seed=chance.randrange(1 << 30))
        pair.raw.send(b"\x16\x03" + chance.randbytes(chance.randrange(1, 300)))
        for _ in range(30):
            pair.loop.turn()
        pair.raw.close()
        pair.until(lambda pair=pair: pair.failure, moves=False)  # type: ignore[misc]
        assert len(pair.refused) == 1
        pair.transport.close()


def test_the_end_of_the_peer(pair: Pair) -> None:
    pair.open()
    pair.until(lambda: pair.peer.send(b"last"))
    pair.raw.close()
    pair.until(lambda: pair.has_ended, moves=False)
    assert pair.failure is None


def test_the_end_of_the_peer_by_tls(pair: Pair) -> None:
    """The connection below may stay open for longer."""
    pair.open()
    pair.until(lambda: pair.peer.send(b"last"))
    with pytest.raises(ssl.SSLWantReadError):
        pair.peer.tls.unwrap()
    pair.until(lambda: pair.has_ended)
    assert pair.received == b"last"


def test_closing_tells_the_peer_that_nothing_was_cut_off(pair: Pair) -> None:
    pair.open()
    pair.send(b"answer")
    pair.pause()
    pair.transport.close()
    for _ in range(100):
        pair.peer._move()
    assert pair.peer.tls.read(10) == b""


def test_changed_bytes_break_the_connection(pair: Pair) -> None:
    pair.open()
    pair.until(lambda: not pair.carrier.inbound)
    assert pair.peer.tls.write(b"secret")
    data = bytearray(pair.peer.outgoing.read())
    data[-1] ^= 1
    pair.raw.send(bytes(data))
    pair.until(lambda: pair.failure, moves=False)
    assert isinstance(pair.failure, ssl.SSLError)
    with pytest.raises(OSError, match=r"(?i)record mac"):
        pair.transport.send(b"x")


def test_a_carrier_that_breaks_is_told_to_who_waits_to_send(pair: Pair) -> None:
    pair.open()
    pair.pause()
    failed: list[OSError] = []

    def writable() -> None:
        try:
            pair.transport.send(b"x")
        except OSError as error:
            failed.append(error)
            pair.transport.unwatch_writable()

    pair.transport.send(bytes(PART_BYTES))
    pair.transport.watch_writable(writable)
    pair.raw.close()
    pair.until(lambda: failed, moves=False)


def test_turns_let_others_have_theirs() -> None:
    loop = Loop()
    turns = HandshakeTurns(loop, loop.time)
    done: list[int] = []
    for number in range(2 * STEPS_A_TURN + 1):
        turns.run(lambda number=number: done.append(number))  # type: ignore[misc]
    counts = []
    for _ in range(4):
        loop.turn()
        counts.append(len(done))
    assert counts == [STEPS_A_TURN, 2 * STEPS_A_TURN, 2 * STEPS_A_TURN + 1, 2 * STEPS_A_TURN + 1]
    assert done == sorted(done)


def test_a_slow_step_ends_the_turn() -> None:
    loop = Loop()
    turns = HandshakeTurns(loop, loop.time)
    done: list[int] = []

    def slow() -> None:
        loop.now += 1
        done.append(1)

    for _ in range(3):
        turns.run(slow)
    loop.turn()
    assert len(done) == 1
    loop.turn()
    assert len(done) == 2


def test_a_step_that_fails_does_not_end_the_turns() -> None:
    loop = Loop()
    turns = HandshakeTurns(loop, loop.time)
    done: list[int] = []

    def fail() -> None:
        raise MemoryError

    turns.run(fail)
    turns.run(lambda: done.append(1))
    with pytest.raises(MemoryError):
        loop.turn()
    loop.turn()
    assert done == [1]
