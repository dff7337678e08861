"""Test the gate of a SASL listener on a simulated clock: delays, time-outs, sessions that end, limits."""

from __future__ import annotations

import logging
import random
from concurrent.futures import Future
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.config.listeners import Endpoint
from broker.net.authentication.sasl_gate import FAREWELL_S, RENEWAL_PAUSE_S, SaslGate, SaslListener
from broker.net.authentication.unauthenticated import UnauthenticatedConnections
from broker.net.connection import Connection
from broker.net.disk_reads import DiskReads
from broker.net.framing import FrameLimits
from broker.net.limits.memory import RequestMemory
from broker.net.limits.told import LINES, PAUSE_S, Told
from broker.net.session import ANONYMOUS, Principal, Session
from broker.security.sasl.mechanisms.plain import PlainAccounts, PlainServer
from kafkalog.protocol.codec import decode_response, encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kafkalog.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kafkalog.protocol.schema import Request
from tests.broker.net.simulated import SimulatedLoop
from tests.broker.net.transports import InMemoryPeer, InMemoryTransport
from tests.broker.security.sasl.exchanges import PASSWORDS, FewAnswers, offer

ENDPOINT = Endpoint("OUT", "", 9092, "SASL_PLAINTEXT")
DELAY_S, TIMEOUT_S, MOST = 0.1, 10.0, 3
MAX_RECEIVE, MAX_REQUEST = 5000, 200_000
BOUND = 100_000
WAIT_S = 3600.0


class Slow(PlainServer):
    """PLAIN that takes long."""

    is_slow = True


class Workers:
    """Workers of a simulated loop: the work is done when `finish` is called."""

    def __init__(self) -> None:
        self.work: list[tuple[Future[Any], partial[Any]]] = []

    def run(self, work: Any, *args: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self.work.append((future, partial(work, *args)))
        return future

    def finish(self) -> None:
        for future, work in self.work:
            if not future.cancelled():
                future.set_result(work())
        self.work.clear()


class Room:
    """A listener, its clients, and the dispatcher behind its gates.

    Attributes:
        served: what the dispatcher has got: the principal, and the frame's first two bytes.
    """

    def __init__(self, max_reauth_ms: int = 0) -> None:
        self.chance = random.Random(1)
        self.loop = SimulatedLoop(self.chance)
        self.memory = RequestMemory(BOUND)
        self.workers = Workers()
        self.served: list[tuple[Principal, bytes]] = []
        told = Told(self.loop, logging.getLogger("gate"))
        self.unauthenticated = UnauthenticatedConnections(self.loop, lambda: TIMEOUT_S, lambda: MOST, told)
        self.listener = SaslListener(
            offer=offer(max_reauth_ms, SLOW=partial(Slow, PlainAccounts(PASSWORDS))),
            before=FrameLimits(MAX_RECEIVE, "sasl.server.max.receive.size", growth=1000),
            after=FrameLimits(MAX_REQUEST),
            memory=self.memory,
            failure_delay=lambda: DELAY_S,
            served=self,
            answers=lambda connection: FewAnswers(),
            workers=self.workers,  # type: ignore[arg-type]
            clock=self.loop,
            now_ms=lambda: int(self.loop.now * 1000),
            unauthenticated=self.unauthenticated,
            told=told,
        )

    def dispatch(self, connection: Connection, frame: memoryview) -> None:
        self.served.append((connection.session.principal, bytes(frame[:2])))
        connection.reply([b"\0\0\0\x02ok"])

    def may_follow(self, head: memoryview) -> bool:
        return False

    def client(self, address: str = "10.0.0.1") -> Client:
        return Client(self, address)

    def run(self, seconds: float = 0.0) -> None:
        """Let time pass, and whatever happens in it."""
        until = self.loop.now + seconds
        while self.loop._soon or (self.loop._timers and self.loop._timers[0][0] <= until):
            if self.loop._soon:
                self.loop._run_soon()
            else:
                self.loop._run_timer()
        self.loop.now = max(self.loop.now, until)


class Client:
    def __init__(self, room: Room, address: str) -> None:
        self.room = room
        self.transport = InMemoryTransport(room.loop, room.chance, 1 << 20)
        self.peer = InMemoryPeer(self.transport)
        gate = SaslGate(room.listener)
        self.connection = Connection(
            room.loop,
            self.transport,
            Session(ENDPOINT, address),
            gate,
            room.memory,
            DiskReads(room.loop.run_on_worker, lambda *_: True, lambda *_: None),
            MAX_REQUEST,
            room.unauthenticated.remove,
        )
        gate.guard(self.connection)

    def send(self, message: Request, version: int) -> None:
        self.send_bytes(encode_request(message, version, 1, "test"))

    def send_bytes(self, data: bytes) -> None:
        while data:
            data = data[self.peer.send(data) :]
            self.room.run()
        self.room.run()

    def received(self) -> bytes:
        """Return the next frame, or nothing if none has come."""
        self.room.run()
        size = self._take(4)
        return self._take(int.from_bytes(size, "big")) if size else b""

    def _take(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            piece = self.peer.recv(count - len(data))
            if not piece:
                assert not data
                return b""
            data += piece
            self.room.run()
        return data

    def ask(self, message: Request, version: int) -> Any:
        self.send(message, version)
        answer = self.received()
        return decode_response(type(message), version, answer)[1] if answer else None

    def log_in(self, mechanism: str = "PLAIN", password: str = "a-secret") -> Any:
        handshake = self.ask(SaslHandshakeRequest(mechanism=mechanism), 1)
        if handshake is None or handshake.error_code:
            return handshake
        return self.ask(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{password}".encode()), 2)

    @property
    def principal(self) -> Principal:
        return self.connection.session.principal

    @property
    def closed(self) -> bool:
        return self.connection.closed


@pytest.fixture
def room() -> Room:
    return Room()


ALICE = Principal("User", "alice")
METADATA = MetadataRequest(topics=None)


def test_requests_are_served_once_the_client_is_known(room: Room) -> None:
    client = room.client()
    assert client.principal == ANONYMOUS
    assert client.log_in().error_code == ErrorCode.NONE
    assert client.principal == ALICE
    assert client.connection.session.mechanism == "PLAIN"
    client.send(METADATA, 8)
    assert client.received() == b"ok"
    assert room.served == [(ALICE, b"\0\x03")]
    assert client.connection._dispatcher is room, "the gate is gone"
    assert (room.listener.counts.successful, room.listener.counts.without_end) == (1, 1)
    assert len(room.unauthenticated) == 0
    room.run(WAIT_S)
    assert not client.closed


def test_all_at_once(room: Room) -> None:
    client = room.client()
    requests = [
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=b"\0alice\0a-secret"), 2),
        (METADATA, 8),
    ]
    client.send_bytes(b"".join(encode_request(message, version, 1, "test") for message, version in requests))
    assert [len(client.received()) > 0 for _ in range(3)] == [True] * 3
    assert room.served == [(ALICE, b"\0\x03")]


def test_a_failure_is_answered_after_the_delay(room: Room) -> None:
    client = room.client()
    assert client.log_in(password="wrong") is None
    client.send(METADATA, 8)
    room.run(DELAY_S * 0.9)
    assert client.received() == b""
    assert not client.closed
    room.run(DELAY_S * 0.2)
    _, response = decode_response(SaslAuthenticateRequest, 2, client.received())
    assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert not client.closed, "the client may read the answer first"
    client.send(METADATA, 8)
    room.run(FAREWELL_S)
    assert client.closed
    assert client.received() == b""
    assert room.served == []
    assert room.listener.counts.failures == 1


def test_a_client_that_leaves_during_the_delay(room: Room) -> None:
    client = room.client()
    client.log_in(password="wrong")
    client.peer.close()
    room.run(WAIT_S)
    assert client.closed
    assert not [timer for _, _, timer in room.loop._timers if timer.callback]


def test_a_request_without_authentication(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    client = room.client()
    assert client.ask(METADATA, 8) is None
    assert "client did not authenticate" in caplog.text
    room.run(DELAY_S)
    assert client.received() == b""
    assert client.closed
    assert room.served == []


def test_a_client_that_does_nothing_is_closed_in_time(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    early = room.client()
    room.run(TIMEOUT_S / 2)
    late, known = room.client(), room.client()
    assert known.log_in().error_code == ErrorCode.NONE
    late.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    room.run(TIMEOUT_S / 2)
    assert [early.closed, late.closed, known.closed] == [True, False, False]
    assert "kafkalog.authentication.timeout.ms" in caplog.text
    room.run(TIMEOUT_S / 2)
    assert [late.closed, known.closed] == [True, False]


def test_the_oldest_of_the_address_with_the_most_makes_room(room: Room) -> None:
    single = room.client("10.0.0.1")
    crowd = [room.client("10.0.0.2") for _ in range(MOST - 1)]
    more = room.client("10.0.0.3")
    assert [each.closed for each in (single, *crowd, more)] == [False, True, *[False] * (MOST - 2), False]
    assert len(room.unauthenticated) == MOST
    for _ in range(100):
        assert room.client("10.0.0.2").log_in().error_code == ErrorCode.NONE


def test_a_frame_before_authentication_is_short(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    client = room.client()
    client.send_bytes((MAX_RECEIVE + 1).to_bytes(4, "big"))
    assert client.closed
    assert "sasl.server.max.receive.size" in caplog.text


def test_a_frame_takes_memory_as_its_bytes_come_and_none_of_other_clients(room: Room) -> None:
    client = room.client()
    client.send_bytes(MAX_RECEIVE.to_bytes(4, "big") + b"x")
    assert client.connection._reader.frames.capacity <= 32 * 1024
    assert room.memory.used == 0


def test_a_client_that_is_known_sends_long_frames(room: Room) -> None:
    client = room.client()
    client.log_in()
    client.send_bytes((MAX_REQUEST - 10).to_bytes(4, "big") + b"\0\x03" + b"x" * 90_000)
    assert 0 < room.memory.used <= MAX_REQUEST
    client.send_bytes(b"x" * (MAX_REQUEST - 10 - 90_002))
    assert client.received() == b"ok"
    assert room.memory.used == 0


@given(st.lists(st.binary(max_size=300), max_size=6), st.booleans())
def test_no_bytes_get_through(pieces: list[bytes], is_renewal: bool) -> None:
    room = Room(max_reauth_ms=5000)
    client = room.client()
    if is_renewal:
        client.log_in()
        room.run(5)
        client.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    for piece in pieces:
        if not client.closed:
            # Whole frames, and bytes as they come.
            client.send_bytes(len(piece).to_bytes(4, "big") + piece if len(piece) % 2 else piece)
    room.run(WAIT_S)
    assert room.served == []
    assert client.closed or is_renewal
    assert len(room.unauthenticated) == 0


# -- mechanisms that take long


def test_a_slow_mechanism_runs_on_a_worker(room: Room) -> None:
    client = room.client()
    assert client.log_in("SLOW") is None
    assert len(room.workers.work) == 1
    room.workers.finish()
    assert client.received() != b""
    assert client.principal == ALICE


def test_a_client_that_leaves_a_slow_mechanism(room: Room) -> None:
    client = room.client()
    client.log_in("SLOW")
    client.peer.close()
    room.run(1)
    assert client.closed
    room.workers.finish()
    assert client.principal == ANONYMOUS


def test_credentials_that_no_worker_can_check_end_the_connection(
    room: Room, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(work: object, *args: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(room.workers, "run", fail)
    client = room.client()
    client.log_in("SLOW")
    room.run()
    assert client.closed
    assert client.principal == ANONYMOUS
    assert "closing connection from 10.0.0.1: its request could not be served" in caplog.text
    assert len(room.unauthenticated) == 0


# -- sessions that end


def test_a_session_is_renewed_and_ends() -> None:
    room = Room(max_reauth_ms=5000)
    client = room.client()
    assert client.log_in().session_lifetime_ms == 5000
    room.run(4)
    assert client.log_in().session_lifetime_ms == 5000
    room.run(4)
    client.send(METADATA, 8)
    assert client.received() == b"ok"
    room.run(1.5)
    assert not client.closed, "nothing happens before the next request"
    client.send(METADATA, 8)
    assert client.closed
    assert client.received() == b""
    counts = room.listener.counts
    assert (counts.successful, counts.without_end, counts.renewed, counts.expired) == (1, 0, 1, 1)


def test_a_session_may_be_renewed_after_its_end() -> None:
    room = Room(max_reauth_ms=5000)
    client = room.client()
    client.log_in()
    room.run(10)
    assert client.log_in().error_code == ErrorCode.NONE
    client.send(METADATA, 8)
    assert client.received() == b"ok"


def test_a_renewal_that_fails_ends_the_connection() -> None:
    room = Room(max_reauth_ms=5000)
    client = room.client()
    client.log_in()
    room.run(2)
    assert client.log_in(password="wrong") is None
    room.run(DELAY_S)
    assert client.received() != b""
    room.run(FAREWELL_S)
    assert client.closed
    assert client.principal == ALICE
    assert (room.listener.counts.failures, room.listener.counts.renewal_failures) == (0, 1)


def test_renewals_that_follow_each_other_too_fast_are_requests() -> None:
    room = Room(max_reauth_ms=50_000)
    client = room.client()
    client.log_in()
    assert client.log_in().error_code == ErrorCode.NONE
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert client.received() == b"ok", "the dispatcher answers"
    room.run(RENEWAL_PAUSE_S)
    assert client.log_in().error_code == ErrorCode.NONE


def test_a_session_that_does_not_end_is_not_renewed(room: Room) -> None:
    client = room.client()
    client.log_in()
    room.run(10)
    client.send(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    assert client.received() == b"ok", "the dispatcher answers"


# -- the log


def test_an_address_fills_no_log(room: Room, caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        client = room.client()
        client.log_in(password="wrong")
        room.run(DELAY_S + FAREWELL_S)

    for _ in range(3 * LINES):
        fail()
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == LINES
    assert "as user 'alice'" in lines[0]
    assert "wrong" not in caplog.text
    room.run(PAUSE_S)
    caplog.clear()
    fail()
    assert f"{2 * LINES} more such lines" in caplog.text
