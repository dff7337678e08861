"""Test that a real broker stores the producer's records where and how they should be."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.client.errors import ClientTimeoutError, ConfigError
from kafkalog.client.producer import DeliveryFuture, ProducerClosedError, ProducerConfig
from kafkalog.client.producer.partitioner import partition_for_key
from kafkalog.protocol.errors import (
    MessageTooLargeError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)
from kafkalog.records.batch import Record
from kafkalog.records.compression import Codec
from tests.kafkalog.client.producer.stored import batches, new_topic, producer, records, values
from tests.support.waiting import wait_until

DEADLINE_S = 240.0


@pytest.fixture
def sock(broker_address: str) -> Iterator[socket.socket]:
    host, _, port = broker_address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connected:
        yield connected


@pytest.fixture
def topic(sock: socket.socket) -> str:
    """A new topic with one partition."""
    return new_topic(sock)


def test_everything_of_a_record(broker_address: str, sock: socket.socket, topic: str) -> None:
    with producer(broker_address) as sending:
        future = sending.send(topic, b"value", b"key", [("h", b"1"), ("h", None)], timestamp=1234)
        assert future.result(DEADLINE_S) == (topic, 0, 0, 1234)
        assert future.done()
        assert future.exception() is None
        assert sending.send(topic, None, b"").result(DEADLINE_S).offset == 1
        assert sending.send(topic, b"").result(DEADLINE_S).offset == 2
    first, second, third = records(sock, topic)
    assert first == Record(0, 1234, b"key", b"value", (("h", b"1"), ("h", None)))
    assert (second.key, second.value) == (b"", None)
    assert (third.key, third.value, third.headers) == (None, b"", ())


def test_plain_and_keyed_records_share_a_batch(broker_address: str, sock: socket.socket, topic: str) -> None:
    with producer(broker_address, linger_ms=10000) as sending:
        sending.send(topic, b"plain")
        sending.send(topic, b"keyed", b"key")
        sending.send_values(topic, [b"more", b"values"])
        sending.send(topic, b"headed", None, [("h", b"1")])
        sending.flush(DEADLINE_S)
    ((header, found),) = batches(sock, topic)
    assert [(each.key, each.value) for each in found] == [
        (None, b"plain"),
        (b"key", b"keyed"),
        (None, b"more"),
        (None, b"values"),
        (None, b"headed"),
    ]
    assert found[4].headers == (("h", b"1"),)
    assert header.base_sequence == 0
    assert header.has_producer_id


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_codecs(broker_address: str, sock: socket.socket, topic: str, codec: str) -> None:
    sent = [b"%d" % n * 30 for n in range(500)]
    with producer(broker_address, compression_type=codec, linger_ms=20) as sending:
        futures = [sending.send(topic, value) for value in sent]
        assert [future.result(DEADLINE_S).offset for future in futures] == list(range(500))
    found = batches(sock, topic)
    assert {header.codec for header, _ in found} == {Codec[codec.upper()]}
    assert [record.value for _, each in found for record in each] == sent


def test_order_and_offsets_under_load(broker_address: str, sock: socket.socket, topic: str) -> None:
    sent = [b"%07d" % n for n in range(50_000)]
    with producer(broker_address) as sending:
        futures = [sending.send(topic, value) for value in sent]
    assert [future.result().offset for future in futures] == list(range(len(sent)))
    found = batches(sock, topic)
    assert [record.value for _, each in found for record in each] == sent
    expected = 0
    for header, _ in found:
        assert header.base_sequence == expected
        expected += header.records_count


def test_many_values_at_once(broker_address: str, sock: socket.socket, topic: str) -> None:
    sent = [b"%07d" % n for n in range(100_000)]
    with producer(broker_address) as sending:
        futures = sending.send_values(topic, sent)
        assert sending.send_values(topic, []) == []
    assert sum(future.count for future in futures) == len(sent)
    offsets = [each.offset for future in futures for each in future.result()]
    assert offsets == list(range(len(sent)))
    assert values(sock, topic) == sent


def test_batch_size_is_kept(broker_address: str, sock: socket.socket, topic: str) -> None:
    with producer(broker_address, batch_size=1000, linger_ms=50) as sending:
        for n in range(200):
            sending.send(topic, b"%d" % n * 40)
        sending.send(topic, b"x" * 3000)
    found = batches(sock, topic)
    assert max(header.size for header, each in found if len(each) > 1) <= 1000 + 61
    assert found[-1][0].size > 3000


def test_lingering_ends(broker_address: str, topic: str) -> None:
    with producer(broker_address, linger_ms=50) as sending:
        assert sending.send(topic, b"x").result(DEADLINE_S).offset == 0


def test_keys_go_where_java_puts_them(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock, 5)
    keys = [b"key-%d" % n for n in range(200)]
    with producer(broker_address) as sending:
        futures = [sending.send(name, b"v", key) for key in keys]
        assert [future.result(DEADLINE_S).partition for future in futures] == [
            partition_for_key(key, 5) for key in keys
        ]
        assert sending.send(name, b"v", b"key", partition=3).result(DEADLINE_S).partition == 3
        assert sending.partitions_for(name) == [0, 1, 2, 3, 4]
    with producer(broker_address, partitioner_ignore_keys=True, batch_size=1) as sending:
        futures = [sending.send(name, b"v", b"same") for _ in range(50)]
        assert len({future.result(DEADLINE_S).partition for future in futures}) > 1


def test_records_without_key_reach_all_partitions(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock, 3)
    with producer(broker_address) as sending:
        futures = [sending.send(name, b"x" * 1000) for _ in range(500)]
    counts = Counter(future.result().partition for future in futures)
    assert set(counts) == {0, 1, 2}


@pytest.mark.parametrize("acks", ["0", "1"])
def test_fewer_acks(broker_address: str, sock: socket.socket, topic: str, acks: str) -> None:
    with producer(broker_address, acks=acks) as sending:
        offsets = [sending.send(topic, b"%d" % n).result(DEADLINE_S).offset for n in range(20)]
        if acks == "0":
            assert offsets == [-1] * 20
            # Requests of one connection are done in order, so that a later one with an answer tells of those.
            end = time.monotonic() + DEADLINE_S
            while len(values(sock, topic)) < 20:
                assert time.monotonic() < end
        else:
            assert offsets == list(range(20))
    assert values(sock, topic) == [b"%d" % n for n in range(20)]
    assert not any(header.has_producer_id for header, _ in batches(sock, topic))


def test_log_append_time(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock, message_timestamp_type="LogAppendTime")
    before = int(time.time() * 1000)
    with producer(broker_address) as sending:
        assert sending.send(name, b"x", timestamp=5).result(DEADLINE_S).timestamp >= before


def test_a_batch_that_is_too_large_is_split(broker_address: str, sock: socket.socket) -> None:
    name = new_topic(sock, max_message_bytes="1500")
    sent = [b"%03d" % n * 30 for n in range(400)]
    with producer(broker_address, linger_ms=100) as sending:
        futures: list[DeliveryFuture | None] = [sending.send(name, value) for value in sent]
        hopeless = sending.send(name, b"x" * 2000)
        after = sending.send(name, b"after")
        assert isinstance(hopeless.exception(DEADLINE_S), MessageTooLargeError)
        assert [future.result(DEADLINE_S).offset for future in futures if future] == list(range(400))
        assert after.result(DEADLINE_S).offset == 400
        (mixed,) = sending.send_values(name, [b"more", b"x" * 2000, b"less"])
        ((index, error),) = mixed.failures(DEADLINE_S)
        assert index == 1
        assert isinstance(error, MessageTooLargeError)
        assert mixed.exception() is error
        with pytest.raises(MessageTooLargeError):
            mixed.result()
    assert values(sock, name) == [*sent, b"after", b"more", b"less"]


def test_callbacks(broker_address: str, topic: str) -> None:
    seen: list[int] = []
    done = threading.Event()

    def note(future: DeliveryFuture) -> None:
        seen.append(future.result().offset)

    def fail(future: DeliveryFuture) -> None:
        raise RuntimeError("a callback's own trouble")

    with producer(broker_address) as sending:
        for _ in range(10):
            future = sending.send(topic, b"x")
            future.add_done_callback(fail)
            future.add_done_callback(note)
        future.add_done_callback(lambda _: done.set())
        assert done.wait(DEADLINE_S)
        assert sorted(seen) == list(range(10))
        future.add_done_callback(note)
        assert seen[-1] == 9


def test_a_callback_that_exits_ends_nothing(broker_address: str, topic: str) -> None:
    with producer(broker_address) as sending:
        sending.send(topic, b"x").add_done_callback(lambda _: sys.exit("a callback's own end"))
        sending.flush(DEADLINE_S)
        assert sending.send(topic, b"x").result(DEADLINE_S).offset == 1


def test_flush_waits_for_callbacks(broker_address: str, topic: str) -> None:
    called, go_on = threading.Event(), threading.Event()

    def slow(_: DeliveryFuture) -> None:
        called.set()
        assert go_on.wait(DEADLINE_S)

    with producer(broker_address) as sending:
        future = sending.send(topic, b"x")
        future.add_done_callback(slow)
        try:
            assert called.wait(DEADLINE_S)
            future.result(0)
            with pytest.raises(ClientTimeoutError, match="callbacks"):
                sending.flush(0)
        finally:
            go_on.set()
        sending.flush(DEADLINE_S)


def test_callbacks_send(broker_address: str, sock: socket.socket, topic: str) -> None:
    """A callback may send, but never waits for what only its own thread can bring."""
    other = new_topic(sock)
    inner: list[DeliveryFuture] = []
    called = threading.Event()

    def send_more(_: DeliveryFuture) -> None:
        inner.append(sending.send(topic, b"second"))
        inner.append(sending.send(other, b"unknown so far"))
        called.set()

    with producer(broker_address) as sending:
        sending.send(topic, b"first").add_done_callback(send_more)
        assert called.wait(DEADLINE_S)
        assert inner[0].result(DEADLINE_S).offset == 1
        assert isinstance(inner[1].exception(DEADLINE_S), TimeoutError)
        assert sending.send(other, b"x").result(DEADLINE_S).offset == 0


def test_threads_share_a_producer(broker_address: str, sock: socket.socket, topic: str) -> None:
    with producer(broker_address, buffer_memory=100_000) as sending:

        def send(name: int) -> None:
            for n in range(3000):
                sending.send(topic, b"%d %d" % (name, n))

        threads = [threading.Thread(target=send, args=(name,)) for name in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [tuple(map(int, (value or b"").split())) for value in values(sock, topic)]
    for name in range(4):
        assert [n for who, n in found if who == name] == list(range(3000))


def test_a_topic_that_does_not_exist(start_broker: Any) -> None:
    broker = start_broker({"auto.create.topics.enable": "false"})
    with producer(broker.bootstrap, retry_backoff_ms=10) as sending:
        error = sending.send("missing", b"x").exception(DEADLINE_S)
        assert isinstance(error, UnknownTopicOrPartitionError)
        assert "topic missing does not exist" in str(error)
        with pytest.raises(UnknownTopicOrPartitionError):
            sending.send_values("missing", [b"x"])


def test_topics_are_created_when_the_broker_does_so(start_broker: Any) -> None:
    broker = start_broker({"auto.create.topics.enable": "true", "num.partitions": "2"})
    with producer(broker.bootstrap) as sending:
        assert sending.send("new", b"x").result(DEADLINE_S).offset == 0
        assert sending.partitions_for("new") == [0, 1]


def test_what_cannot_be_sent(broker_address: str, topic: str) -> None:
    with producer(broker_address, max_request_size=1000) as sending:
        error = sending.send(topic, b"x" * 1000).exception(DEADLINE_S)
        assert isinstance(error, MessageTooLargeError)
        assert "max.request.size" in str(error)
        with pytest.raises(MessageTooLargeError):
            sending.send_values(topic, [b"x" * 1000])
        error = sending.send(topic, b"x", partition=7).exception(DEADLINE_S)
        assert isinstance(error, UnknownTopicOrPartitionError)
        assert "no partition 7" in str(error)
        with pytest.raises(TypeError, match="value must be bytes"):
            sending.send(topic, "text")
        with pytest.raises(TypeError, match="header's key"):
            sending.send(topic, b"x", headers=[(b"h", b"1")])  # type: ignore[list-item]
        with pytest.raises(ValueError, match="negative"):
            sending.send(topic, b"x", partition=-1)
        with pytest.raises(ValueError, match="timestamp"):
            sending.send(topic, b"x", timestamp=-5)
    with pytest.raises(ProducerClosedError):
        sending.send(topic, b"x")
    sending.close()


def test_a_record_that_cannot_be_encoded_fails_alone(broker_address: str, sock: socket.socket, topic: str) -> None:
    """A header's name is encoded twice: for its size, and when its batch is sent."""

    class Once(str):
        encoded = False

        def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
            if self.encoded:
                raise UnicodeError("only once")
            self.encoded = True
            return super().encode(encoding, errors)

    with producer(broker_address, batch_size=1) as sending:
        assert sending.send(topic, b"before").result(DEADLINE_S).offset == 0
        bad = sending.send(topic, b"bad", headers=[(Once("h"), b"")])
        after = sending.send(topic, b"after")
        assert isinstance(bad.exception(DEADLINE_S), UnicodeError)
        assert after.result(DEADLINE_S).offset == 1
        assert sending.send(topic, b"last").result(DEADLINE_S).offset == 2


def test_a_forked_process_must_have_its_own(broker_address: str, topic: str) -> None:
    script = f"""
import os
from kafkalog.client.producer import Producer, ProducerClosedError

def refused(call):
    try:
        call()
    except ProducerClosedError as error:
        return "forked" in str(error)
    return False

producer = Producer({{"bootstrap.servers": {broker_address!r}}})
producer.send({topic!r}, b"parent").result(30)
child = os.fork()
if not child:
    calls = (
        lambda: producer.send({topic!r}, b"x"),
        lambda: producer.send("other", b"x"),
        lambda: producer.send_values({topic!r}, [b"x"]),
        producer.flush,
    )
    good = all(refused(call) for call in calls)
    producer.close()
    with Producer({{"bootstrap.servers": {broker_address!r}}}) as own:
        good = good and own.send({topic!r}, b"child").result(30).offset == 1
    os._exit(0 if good else 1)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
assert producer.send({topic!r}, b"parent").result(30).offset == 2
producer.close()
raise SystemExit(code)
"""
    subprocess.run([sys.executable, "-c", script], timeout=DEADLINE_S * 2, check=True)


def test_a_topic_name_that_is_not_valid(broker_address: str) -> None:
    with producer(broker_address) as sending:
        error = sending.send("no/such name", b"x").exception(DEADLINE_S)
        assert error is not None
        assert not isinstance(error, TopicAuthorizationFailedError)
        assert "no/such name" in str(error)


def test_nobody_listens() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with producer(f"127.0.0.1:{port}", max_block_ms=300) as sending:

            def told() -> str:
                error = sending.send("t", b"x").exception(DEADLINE_S)
                assert isinstance(error, TimeoutError)
                assert "max.block.ms" in str(error)
                return str(error)

            # The first attempt to connect may end later than that on a slow machine.
            wait_until(lambda: "refused" in told(), "the reason is told")


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({}, "bootstrap.servers"),
        ({"bootstrap.servers": "a:1", "acks": "2"}, "acks=2: expected all"),
        ({"bootstrap.servers": "a:1", "compression.type": "br"}, "compression.type=br"),
        ({"bootstrap.servers": "a:1", "linger.ms": "-1"}, "linger.ms=-1"),
        ({"bootstrap.servers": "a:1", "enable.idempotence": True, "acks": "1"}, "change acks"),
        ({"bootstrap.servers": "a:1", "transactional.id": "x", "acks": "1"}, r"transactional\.id needs acks=all.*acks"),
        (
            {"bootstrap.servers": "a:1", "transactional.id": "x", "enable.idempotence": False},
            "needs enable.idempotence",
        ),
        (
            {"bootstrap.servers": "a:1", "transactional.id": "x", "transaction.timeout.ms": 0},
            "transaction.timeout.ms=0",
        ),
        ({"bootstrap.servers": "a:1", "delivery.timeout.ms": "5"}, "delivery.timeout.ms=5"),
        ({"bootstrap.servers": "a:1", "compression.gzip.level": "10"}, "compression.gzip.level=10.* -1 to 9"),
        ({"bootstrap.servers": "a:1", "compression.lz4.level": "0"}, "compression.lz4.level=0.* 1 to 17"),
        ({"bootstrap.servers": "a:1", "compression.zstd.level": "23"}, "compression.zstd.level=23"),
    ],
)
def test_settings_that_cannot_be(properties: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ProducerConfig.from_dict(properties)


def test_settings() -> None:
    config = ProducerConfig.from_dict(
        {"bootstrap.servers": "a:1", "compression.type": "zstd", "compression.zstd.level": 7, "x.y": "z"}
    )
    assert config.idempotence
    assert (config.compression, config.compression_level) == (Codec.ZSTD, 7)
    assert config.unknown == {"x.y": "z"}
    secret = {"bootstrap.servers": "a:1", "ssl.truststore.password": "hidden"}
    assert "hidden" not in repr(ProducerConfig.from_dict(secret))
    assert not ProducerConfig.from_dict({"bootstrap.servers": "a:1", "acks": "1"}).idempotence
    assert ProducerConfig.from_dict({"bootstrap.servers": "a:1", "batch.size": "5"}).batch_limit == 5
