"""Test that bad input gets an error or a closed connection with one log line, and others are still served."""

from __future__ import annotations

import os
import random
import socket
import struct
from collections.abc import Callable

import pytest

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.codec import encode_request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kafkalog.protocol.primitives import uvarint
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until
from tests.support.wire import (
    batch,
    create_topic,
    end_offset,
    exchange,
    is_closed,
    produce,
    produce_request,
    receive_frame,
)


def assert_serving(sock: socket.socket, topic: str) -> None:
    """The broker appends and answers as if nothing had happened."""
    before = end_offset(sock, topic)
    result = produce(sock, topic, batch([b"fine"]))
    assert (result.error_code, result.base_offset) == (0, before)
    assert end_offset(sock, topic) == before + 1


GARBAGE = {
    "zeroes": b"\0" * 64,
    "ones": b"\xff" * 64,
    "negative size": struct.pack(">i", -5) + b"x" * 50,
    "absurd size": struct.pack(">i", (1 << 31) - 1) + b"x" * 50,
    "unknown api": struct.pack(">ihhih", 14, 9999, 0, 1, 4) + b"test",
    "unserved version": struct.pack(">ihhih", 14, 0, 99, 1, 4) + b"test",
    "header cut short": struct.pack(">ihh", 4, 3, 9),
    "client id longer than the request": struct.pack(">ihhih", 10, 3, 8, 1, 20_000),
    "body cut short": struct.pack(">ihhih", 14, 3, 8, 1, 4) + b"test",
    "array of two billion": struct.pack(">ihhih", 18, 3, 8, 1, 4) + b"test" + struct.pack(">i", (1 << 31) - 1),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE.keys())
def test_garbage_closes_its_connection_only(
    broker: KafkalogBroker, wire: socket.socket, topic: str, data: bytes
) -> None:
    before = broker.logged().count("closing connection")
    with broker.connect() as bad:
        bad.sendall(data)
        assert is_closed(bad)
    assert broker.logged().count("closing connection") == before + 1
    assert_serving(wire, topic)


def test_a_request_with_more_entries_than_any_needs_is_refused(
    broker: KafkalogBroker, wire: socket.socket, topic: str
) -> None:
    """Decoded, each entry of three bytes takes 50 times as much memory."""
    count = 3_000_000
    start = struct.pack(">iiiiBii", -1, 0, 0, 0, 0, 0, -1) + uvarint(count + 1)
    body = struct.pack(">hhi", ApiKey.FETCH, 12, 7) + b"\0\1c\0" + start + b"\1\1\0" * count + b"\1\1\0"
    with broker.connect() as bad:
        bad.sendall(struct.pack(">i", len(body)) + body)
        assert is_closed(bad)
    assert "FETCH has more than 2,000,000 entries" in broker.logged()
    assert_serving(wire, topic)


@pytest.mark.parametrize(
    ("data", "hint", "answer"),
    [
        (bytes.fromhex("160301020001000001fc0303") + b"\0" * 500, "security.protocol=PLAINTEXT", b"\x15\3\1\0\2\2\x46"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "looks like HTTP", b"HTTP/1.1 400 Bad Request\r\n"),
    ],
    ids=["tls", "http"],
)
def test_other_protocols_are_told_in_the_log_and_answered(
    broker: KafkalogBroker, data: bytes, hint: str, answer: bytes
) -> None:
    with broker.connect() as bad:
        bad.sendall(data)
        assert bad.recv(len(answer)) == answer
        while bad.recv(1000):
            pass
    line = next(line for line in reversed(broker.logged().splitlines()) if "closing connection" in line)
    assert hint in line


def test_random_bytes_never_stop_the_broker(broker: KafkalogBroker, wire: socket.socket, topic: str) -> None:
    source = random.Random(20240229)
    for _ in range(60):
        with broker.connect() as bad:
            body = source.randbytes(source.randrange(1, 300))
            key, version = source.randrange(0, 76), source.randrange(0, 14)
            framed = struct.pack(">hhi", key, version, 7) + body
            bad.sendall(struct.pack(">i", len(framed)) + framed)
            bad.shutdown(socket.SHUT_WR)
            while bad.recv(65536):
                pass
    assert "Traceback" not in broker.logged()
    assert_serving(wire, topic)


def test_half_a_request_holds_up_nobody(broker: KafkalogBroker, wire: socket.socket, topic: str) -> None:
    whole = encode_request(produce_request(topic, {0: batch([b"late"])}), 9, 1, "slow")
    with broker.connect() as slow, broker.connect() as gone:
        slow.sendall(whole[: len(whole) // 2])
        gone.sendall(whole[: len(whole) // 2])
        gone.close()
        assert_serving(wire, topic)
        slow.sendall(whole[len(whole) // 2 :])
        assert receive_frame(slow)
    assert end_offset(wire, topic) == 2


def test_api_versions_of_the_future_is_answered_with_version_0(wire: socket.socket) -> None:
    wire.sendall(struct.pack(">ihhih", 14, 18, 99, 77, 4) + b"test")
    frame = receive_frame(wire)
    correlation_id, error, count = struct.unpack_from(">ihi", frame)
    assert (correlation_id, error) == (77, ErrorCode.UNSUPPORTED_VERSION)
    ranges = {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", frame[10 : 10 + 6 * count])}
    assert ranges[18] == (0, 4)
    assert ranges[0] == (0, 11)
    assert exchange(wire, ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3).error_code == 0


def corrupted(values: list[bytes | None]) -> bytearray:
    data = batch(values)
    data[-1] ^= 0x40
    return data


def test_a_wrong_crc_is_refused_and_nothing_is_appended(wire: socket.socket, topic: str) -> None:
    assert produce(wire, topic, corrupted([b"x" * 100])).error_code == ErrorCode.CORRUPT_MESSAGE
    assert end_offset(wire, topic) == 0
    assert_serving(wire, topic)


def test_one_bad_partition_leaves_the_other_appended(wire: socket.socket, topic: str) -> None:
    request = produce_request(topic, {0: corrupted([b"x"]), 1: batch([b"y"]), 2: batch([b"z"])})
    codes = [p.error_code for p in exchange(wire, request, 9).responses[0].partition_responses]
    assert codes == [ErrorCode.CORRUPT_MESSAGE, ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert end_offset(wire, topic, 1) == 1


def test_a_batch_over_the_limit_is_refused(wire: socket.socket, topic: str) -> None:
    result = produce(wire, topic, batch([os.urandom(1_100_000)]))
    assert result.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert_serving(wire, topic)


def test_lying_batches_are_refused(wire: socket.socket, topic: str) -> None:
    good = batch([b"a", b"b", b"c"])
    for position, form, value in (
        (8, ">i", 1 << 30),
        (8, ">i", -1),
        (57, ">i", 2),
        (57, ">i", 1 << 30),
        (23, ">i", 7),
    ):
        lying = bytearray(good)
        struct.pack_into(form, lying, position, value)
        assert produce(wire, topic, lying).error_code != 0
    assert produce(wire, topic, good[:-1]).error_code != 0
    assert produce(wire, topic, b"").error_code != 0
    assert end_offset(wire, topic) == 0
    assert_serving(wire, topic)


def test_bad_acks(wire: socket.socket, topic: str) -> None:
    assert produce(wire, topic, batch([b"x"]), acks=7).error_code == ErrorCode.INVALID_REQUIRED_ACKS
    assert end_offset(wire, topic) == 0


def test_an_error_with_acks_0_closes_the_connection(broker: KafkalogBroker, wire: socket.socket, topic: str) -> None:
    with broker.connect() as silent:
        silent.sendall(encode_request(produce_request(topic, {0: batch([b"kept"])}, acks=0), 9, 1, "t"))
        assert exchange(silent, ApiVersionsRequest(), 0, 2).error_code == 0
        silent.sendall(encode_request(produce_request(topic, {0: corrupted([b"x"])}, acks=0), 9, 3, "t"))
        assert is_closed(silent)
    assert end_offset(wire, topic) == 1


def test_pipelined_requests_are_answered_in_order(wire: socket.socket, topic: str) -> None:
    requests = [encode_request(produce_request(topic, {0: batch([b"%d" % n])}), 9, n, "t") for n in range(200)]
    wire.sendall(b"".join(requests))
    for n in range(200):
        assert struct.unpack_from(">i", receive_frame(wire)) == (n,)
    assert end_offset(wire, topic) == 200


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "x" * 250, "é"])
def test_names_that_make_no_directory(wire: socket.socket, name: str) -> None:
    request = CreateTopicsRequest(topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1)])
    assert exchange(wire, request, 5).topics[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_the_memory_for_requests_is_bounded(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"queued.max.request.bytes": str(4 << 20)})
    name = "bounded"
    with broker.connect() as sock:
        create_topic(sock, name)
        large = encode_request(produce_request(name, {0: batch([b"x" * 900_000])}), 9, 1, "t")
        held = [broker.connect() for _ in range(8)]
        try:
            for other in held:
                other.setblocking(False)
                _send_most(other, large)
            # More than the bound is under way and unfinished; those that finish free memory for the rest.
            for other in held:
                other.close()
            assert_serving(sock, name)
            result = produce(sock, name, batch([b"x" * 900_000]))
            assert result.error_code == 0
        finally:
            for other in held:
                other.close()


def _send_most(sock: socket.socket, data: bytes) -> None:
    position = 0
    while position < len(data) - 10:
        try:
            position += sock.send(data[position : len(data) - 10])
        except BlockingIOError:
            return


def test_limits_on_connections(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"max.connections": "2"})
    with broker.connect() as first, broker.connect() as second:
        for sock in (first, second):
            assert exchange(sock, ApiVersionsRequest(), 0).error_code == 0
        with broker.connect() as third:
            assert is_closed(third)
    broker.wait_logged("max.connections is reached")


def test_idle_connections_are_closed(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"connections.max.idle.ms": "200"})

    def served_and_closed() -> bool:
        """A client that is put aside before it asks is idle already."""
        with broker.connect() as idle:
            idle.sendall(encode_request(ApiVersionsRequest(), 0, 1, "idle"))
            return receive_frame(idle) != b"" and is_closed(idle)

    wait_until(served_and_closed, "a connection is served, and closed when it is idle")
