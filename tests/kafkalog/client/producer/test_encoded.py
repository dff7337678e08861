"""Test that batches encoded by the caller are in the log unchanged, once and in order, with any fault."""

from __future__ import annotations

import random
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.errors import ClientTimeoutError
from kafkalog.client.producer import EncodedFuture
from kafkalog.protocol.errors import MessageTooLargeError, UnknownTopicOrPartitionError
from kafkalog.records.batch import HEADER_SIZE, NO_PRODUCER_ID, Record, encode_batch
from kafkalog.records.compression import Codec
from kafkalog.records.errors import RecordsError
from tests.kafkalog.client.producer import test_faults as faults
from tests.kafkalog.client.producer.stored import batches, new_topic, producer, records, values
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.tcp_proxy import Proxy

DEADLINE_S = 240.0
proxied = faults.proxied


@pytest.fixture
def sock(broker_address: str) -> Iterator[socket.socket]:
    host, _, port = broker_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connected:
        yield connected


def encoded(values: list[bytes], codec: Codec = Codec.NONE) -> bytearray:
    found = [Record(at, 1_700_000_000_000 + at, b"key", value, (("h", None),)) for at, value in enumerate(values)]
    return encode_batch(found, codec=codec)


def numbered(count: int, start: int = 0, size: int = 20) -> list[bytes]:
    return [b"%0*d" % (size, number) for number in range(start, start + count)]


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_are_in_the_log_as_they_were_given(broker_address: str, sock: socket.socket, codec: Codec) -> None:
    name = new_topic(sock, 2)
    with producer(broker_address) as sending:
        futures = [sending.send_batch(name, 1, encoded(numbered(10, start), codec)) for start in range(0, 100, 10)]
        assert [future.result(DEADLINE_S) for future in futures] == [(at, at + 9) for at in range(0, 100, 10)]
        assert all(future.done() and future.exception() is None for future in futures)
        assert (futures[0].topic, futures[0].partition, futures[0].count) == (name, 1, 10)
    found = batches(sock, name, 1)
    assert [len(each) for _, each in found] == [10] * 10
    assert [header.codec for header, _ in found] == [codec] * 10
    assert [header.base_sequence for header, _ in found] == list(range(0, 100, 10))
    assert len({header.producer_id for header, _ in found} - {NO_PRODUCER_ID}) == 1
    written = [record for _, each in found for record in each]
    assert [record.value for record in written] == numbered(100)
    assert {(record.key, record.headers) for record in written} == {(b"key", (("h", None),))}
    assert values(sock, name, 0) == []


def test_they_follow_single_records_in_order(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock)
    with producer(broker_address, linger_ms=60_000, delivery_timeout_ms=120_000) as sending:
        sending.send(name, b"first", partition=0)
        sending.send_batch(name, 0, encoded([b"second", b"third"]))
        sending.send(name, b"fourth", partition=0)
    assert values(sock, name) == [b"first", b"second", b"third", b"fourth"]


def test_fewer_acks(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock)
    with producer(broker_address, acks="0") as sending:
        future = sending.send_batch(name, 0, encoded(numbered(5)))
        assert future.result(DEADLINE_S) == (-1, -1)
    with producer(broker_address, enable_idempotence=False) as sending:
        assert sending.send_batch(name, 0, encoded(numbered(5, 5))).result(DEADLINE_S) == (5, 9)
    found = batches(sock, name)
    assert [header.producer_id for header, _ in found] == [NO_PRODUCER_ID] * 2


def test_callbacks(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock)
    seen: list[tuple[int, int]] = []
    with producer(broker_address) as sending:
        future = sending.send_batch(name, 0, encoded(numbered(3)))
        future.add_done_callback(lambda each: seen.append(each.result(0)))
    assert seen == [(0, 2)]


def test_records_that_do_not_decode_are_refused_alone(broker_address: str, sock: socket.socket) -> None:
    """A batch that must be split, and cannot be."""
    small, other = new_topic(sock, max_message_bytes="1000"), new_topic(sock)
    data = encoded([b"x" * 500] * 5)
    data[HEADER_SIZE + 3 : HEADER_SIZE + 60] = b"\xff" * 57
    with producer(broker_address) as sending:
        assert isinstance(sending.send_batch(small, 0, data).exception(DEADLINE_S), RecordsError)
        assert sending.send(other, b"other").result(DEADLINE_S).offset == 0
        assert sending.send(small, b"next").result(DEADLINE_S).offset == 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_a_batch_that_is_too_large_is_split(broker_address: str, sock: socket.socket, codec: Codec) -> None:
    name = new_topic(sock, max_message_bytes="1500")
    chance = random.Random(1)
    given = [chance.randbytes(60) for _ in range(200)]
    with producer(broker_address, compression_type=codec.name.lower()) as sending:
        # A broker takes any number from a producer that it has not seen; from now on it has.
        sending.send_batch(name, 0, encoded([b"known"])).result(DEADLINE_S)
        first = sending.send_batch(name, 0, encoded(given, codec))
        hopeless = sending.send_batch(name, 0, encoded([b"more", chance.randbytes(3000), b"less"]))
        after = sending.send_batch(name, 0, encoded([b"after"]))
        assert first.result(DEADLINE_S) == (1, 200)
        assert isinstance(hopeless.exception(DEADLINE_S), MessageTooLargeError)
        with pytest.raises(MessageTooLargeError):
            hopeless.result()
        after.result(DEADLINE_S)
    written = records(sock, name)
    assert [record.value for record in written] == [b"known", *given, b"more", b"less", b"after"]
    assert [record.timestamp for record in written[1:201]] == [1_700_000_000_000 + at for at in range(200)]
    assert {(record.key, record.headers) for record in written} == {(b"key", (("h", None),))}


def test_what_cannot_be_sent(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock)
    whole = encoded([b"x"])
    with producer(broker_address, max_request_size=1000) as sending:
        for data, text in (
            (bytearray(b"x"), "no record batch"),
            (whole + whole, "bytes in"),
            (whole[:-1], "bytes in"),
            (encode_batch([]), "0 records"),
            (encode_batch([Record(5, 0, None, b"")]), "offsets up to 5"),
            (encode_batch([Record(0, 0)], producer_id=1, producer_epoch=0, base_sequence=0), "already"),
            (encode_batch([Record(0, 0)], is_control=True), "already"),
        ):
            with pytest.raises(ValueError, match=text):
                sending.send_batch(name, 0, data)
        with pytest.raises(MessageTooLargeError, match=r"max\.request\.size"):
            sending.send_batch(name, 0, encoded([b"x" * 2000]))
        with pytest.raises(UnknownTopicOrPartitionError, match="no partition 1"):
            sending.send_batch(name, 1, encoded([b"x"]))
    assert values(sock, name) == []


def test_layout(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock, 3)
    with producer(broker_address) as sending:
        found = sending.layout(name)
        assert (found.partitions, sorted(found.available)) == (3, [0, 1, 2])


def test_memory_is_bounded(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    faults.new_topic(broker, "t")
    batch = encoded([b"x" * 1000] * 10)
    with producer(broker.bootstrap, buffer_memory=len(batch) * 3, max_block_ms=3000) as sending:
        sending.layout("t")
        broker.kill()
        sent = [sending.send_batch("t", 0, bytearray(batch)) for _ in range(3)]
        with pytest.raises(ClientTimeoutError, match=r"buffer\.memory"):
            sending.send_batch("t", 0, bytearray(batch))
        broker.start()
        assert [each.result(DEADLINE_S) for each in sent] == [(0, 9), (10, 19), (20, 29)]
        # What is done gives its room back.
        assert sending.send_batch("t", 0, bytearray(batch)).result(DEADLINE_S) == (30, 39)


@pytest.mark.parametrize("limit", [{}, {"max_message_bytes": "700"}], ids=["whole", "split"])
def test_broken_connections(proxied: tuple[KafkalogBroker, Proxy], limit: dict[str, Any]) -> None:
    broker, proxy = proxied
    faults.new_topic(broker, "t", 3, **limit)
    chance = random.Random(3)
    sent: list[list[bytes]] = [[], [], []]
    futures: list[tuple[int, int, EncodedFuture]] = []
    with faults.producer(broker.bootstrap) as sending:
        sending.layout("t")
        proxy.harm = 0.05
        end = time.monotonic() + DEADLINE_S
        while proxy.broken < 25:
            assert time.monotonic() < end
            for _ in range(chance.randrange(1, 20)):
                partition = chance.randrange(3)
                rows = numbered(chance.randrange(1, 50), len(sent[partition]))
                future = sending.send_batch("t", partition, encoded(rows, chance.choice(list(Codec))))
                futures.append((partition, len(sent[partition]), future))
                sent[partition] += rows
            if chance.random() < 0.5:
                futures[-1][2].exception(DEADLINE_S)
        proxy.harm = 0.0
        sending.flush(DEADLINE_S)
    for _, first, future in futures:
        assert future.result(DEADLINE_S) == (first, first + future.count - 1)
    assert [faults.values(broker, "t", partition) for partition in range(3)] == sent


def test_killed_brokers(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    name = f"t-{uuid.uuid4().hex[:6]}"
    faults.new_topic(broker, name, 2)
    sent: list[list[bytes]] = [[], []]
    futures = []
    with faults.producer(broker.bootstrap) as sending:
        for number in range(300):
            rows = numbered(20, 20 * (number // 2))
            sent[number % 2] += rows
            futures.append(sending.send_batch(name, number % 2, encoded(rows, Codec.LZ4)))
            if number % 100 == 50:
                futures[-20].exception(DEADLINE_S)
                broker.kill()
                broker.start()
        for number, future in enumerate(futures):
            first = 20 * (number // 2)
            assert future.result(DEADLINE_S) == (first, first + 19)
    assert [faults.values(broker, name, partition) for partition in (0, 1)] == sent
