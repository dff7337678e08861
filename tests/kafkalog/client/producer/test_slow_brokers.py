"""Test that brokers that read slowly, not at all, or not for a while (KIP-219) delay no other broker's records."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.producer import Producer
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.produce import (
    ProduceRequest,
    ProduceResponse,
)
from kafkalog.records.batch import Record, encode_batch
from tests.support.scripted import ScriptedBroker, Silence, api_versions, metadata, taken
from tests.support.waiting import wait_until

DEADLINE_S = 120.0
MUCH = 8 << 20
"""More than the sockets take that nobody reads from: Linux sends ahead 4 MiB at most."""


class Pair:
    """A leader of partition 0 that answers nothing until `go` is set, and one of partition 1 that is well."""

    def __init__(self, throttle_ms: int = 0) -> None:
        self.go = threading.Event()
        self.throttle_ms = throttle_ms
        self.prompt = 1 if throttle_ms else 0
        """The number of requests that are answered at once."""
        self.slow = ScriptedBroker({ProduceRequest: self._late}, receive_buffer=1 << 16)
        self.well = ScriptedBroker({ProduceRequest: taken})
        for broker in (self.slow, self.well):
            broker.handlers[MetadataRequest] = lambda request: metadata(
                {1: self.slow, 2: self.well}, {("t", 0): 1, ("t", 1): 2}
            )
            broker.handlers[InitProducerIdRequest] = lambda request: InitProducerIdResponse(producer_id=7)

    def _late(self, request: ProduceRequest) -> ProduceResponse | Silence:
        if self.slow.seen[ProduceRequest] <= self.prompt:
            return taken(request, throttle_time_ms=self.throttle_ms)
        self.go.wait(DEADLINE_S)
        return taken(request) if request.acks else Silence()

    def producer(self, **properties: Any) -> Producer:
        more = {key.replace("_", "."): value for key, value in properties.items()}
        size = {"max.request.size": 2 * MUCH, "buffer.memory": 8 * MUCH}
        return Producer({"bootstrap.servers": self.well.address, **size, **more})


@pytest.fixture
def pair() -> Iterator[Pair]:
    pair = Pair()
    with pair.slow, pair.well:
        yield pair
        pair.go.set()


def large() -> bytearray:
    return encode_batch([Record(0, 0, value=b"x" * MUCH)])


def test_a_leader_that_reads_nothing(pair: Pair) -> None:
    with pair.producer(batch_size=1) as producer:
        first = producer.send("t", b"first", partition=0)
        stuck = producer.send_batch("t", 0, large())
        for n in range(10):
            producer.send("t", b"%d" % n, partition=1).result(DEADLINE_S)
        assert not first.done()
        assert not stuck.done()
        pair.go.set()
        stuck.result(DEADLINE_S)
        # It reads again, and what it had not taken of a request before has come whole.
        producer.send("t", b"last", partition=0).result(DEADLINE_S)


def test_a_leader_that_does_not_let_clients_in(pair: Pair) -> None:
    """As behind a wrong address, or a host that hangs."""

    def greet(request: ApiVersionsRequest) -> ApiVersionsResponse:
        pair.go.wait(DEADLINE_S)
        return api_versions(*pair.slow.handlers)

    pair.slow.handlers[ApiVersionsRequest] = greet
    with pair.producer(socket_connection_setup_timeout_ms=round(DEADLINE_S * 1000)) as producer:
        waits = producer.send("t", b"waits", partition=0)
        wait_until(lambda: pair.slow.seen[ApiVersionsRequest] == 1, "the producer waits to be let in")
        for n in range(10):
            producer.send("t", b"%d" % n, partition=1).result(DEADLINE_S)
        assert not waits.done()
        assert pair.slow.connections == 1
        pair.go.set()
        waits.result(DEADLINE_S)
    assert pair.slow.connections == 1


def test_close_does_not_wait_for_a_leader_that_does_not_let_clients_in(pair: Pair) -> None:
    pair.slow.handlers[ApiVersionsRequest] = lambda _: Silence()
    producer = pair.producer(socket_connection_setup_timeout_ms=round(DEADLINE_S * 1000))
    waits = producer.send("t", b"waits", partition=0)
    wait_until(lambda: pair.slow.seen[ApiVersionsRequest] == 1, "the producer waits to be let in")
    producer.close(0.0)
    assert isinstance(waits.exception(0), ClientTimeoutError)
    assert not producer._sender._thread.is_alive()


def test_it_does_not_read_in_time(pair: Pair) -> None:
    limits = {"request_timeout_ms": 300, "delivery_timeout_ms": 1000}
    with pair.producer(**limits, linger_ms=0) as producer:
        error = producer.send_batch("t", 0, large()).exception(DEADLINE_S)
        assert isinstance(error, ClientTimeoutError)
        # These limits hold for the other broker, too, which may need longer on a slow machine.
        wait_until(lambda: producer.send("t", b"x", partition=1).exception(DEADLINE_S) is None, "the other one is well")


def test_without_acknowledgement_a_producer_is_closed_when_all_is_sent(pair: Pair) -> None:
    # Nobody reads the second request from the first connection: it is sent again on another one, after this time.
    producer = pair.producer(acks="0", enable_idempotence="false", request_timeout_ms=3000)
    producer.send("t", b"is being read", partition=0).result(DEADLINE_S)
    producer.send_batch("t", 0, large()).result(DEADLINE_S)
    closing = threading.Thread(target=producer.close)
    closing.start()
    pair.go.set()
    closing.join(DEADLINE_S)
    assert not closing.is_alive()
    wait_until(lambda: pair.slow.seen[ProduceRequest] == 2, "the second request has come, all of it")


def test_a_leader_that_serves_nothing_for_a_while() -> None:
    """Nothing is sent to it meanwhile, and the others' records are delivered."""
    pair = Pair(throttle_ms=100_000_000)
    with pair.slow, pair.well:
        producer = pair.producer(delivery_timeout_ms=400_000_000)
        producer.send("t", b"above a quota", partition=0).result(DEADLINE_S)
        waits = producer.send("t", b"waits", partition=0)
        for n in range(10):
            producer.send("t", b"%d" % n, partition=1).result(DEADLINE_S)
        assert not waits.done()
        assert pair.slow.seen[ProduceRequest] == 1
        producer.close(0.0)
        assert isinstance(waits.exception(DEADLINE_S), ClientTimeoutError)
        pair.go.set()


def test_without_acknowledgement_what_is_not_received_is_not_delivered(pair: Pair) -> None:
    """It counts as delivered when the kernel has it, and is sent again where the connection breaks before."""
    with pair.producer(acks="0", enable_idempotence="false", linger_ms=0) as producer:
        producer.send("t", b"is being read", partition=0).result(DEADLINE_S)
        future = producer.send_batch("t", 0, large())
        for n in range(10):
            producer.send("t", b"%d" % n, partition=1).result(DEADLINE_S)
        assert not future.done()
        pair.slow.hang_up()
        pair.go.set()
        future.result(DEADLINE_S)
    wait_until(lambda: pair.slow.seen[ProduceRequest] == 2, "the second request has come after all")


def test_what_was_given_up_half_sent_holds_up_nothing(pair: Pair) -> None:
    """Though the broker has said that it serves nothing for days: a request that is not whole is nothing to it."""
    pair.prompt = 1
    with pair.producer(delivery_timeout_ms=3500, request_timeout_ms=3000, linger_ms=0) as producer:
        producer.send("t", b"first", partition=0).result(DEADLINE_S)
        waits = producer.send("t", b"waits", partition=0)
        wait_until(lambda: pair.slow.seen[ProduceRequest] == 2, "the second request has come")
        given_up = producer.send_batch("t", 0, large())
        link = producer._sender._channels[1]
        wait_until(lambda: link.unsent, "some of the third request is sent")
        assert link._connection is not None
        link._connection.serves_at = time.monotonic() + 1e6
        for future in (waits, given_up):
            assert isinstance(future.exception(DEADLINE_S), ClientTimeoutError)
        pair.go.set()
        # On another connection, for that one was of no use any more.
        producer.send("t", b"next", partition=0).result(DEADLINE_S)
