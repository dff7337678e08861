"""Test that the producer loses, repeats and reorders nothing when brokers die, stall or break connections."""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientTimeoutError, ConnectionFailedError
from kafkalog.client.producer import DeliveryFuture, Producer, ProducerClosedError
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.protocol.errors import CorruptMessageError, ErrorCode
from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalog.protocol.messages.produce import ProduceRequest, ProduceResponse
from peers.process import free_port
from tests.kafkalog.client.producer import stored
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.scripted import ScriptedBroker, metadata, taken
from tests.support.tcp_proxy import Proxy
from tests.support.waiting import wait_until
from tests.support.wire import create_topic

DEADLINE_S = 240.0
QUICK = {
    "retry.backoff.ms": 10,
    "retry.backoff.max.ms": 50,
    "reconnect.backoff.ms": 10,
    "reconnect.backoff.max.ms": 50,
}


def producer(bootstrap: str, **properties: Any) -> Producer:
    more = {key.replace("_", "."): value for key, value in properties.items()}
    return Producer({"bootstrap.servers": bootstrap, **QUICK, **more})


def new_topic(broker: KafkalogBroker, name: str, partitions: int = 1, **config: str) -> None:
    with broker.connect() as sock:
        create_topic(sock, name, partitions, **config)


def values(broker: KafkalogBroker, topic: str, partition: int = 0) -> list[bytes]:
    with broker.connect() as sock:
        return [value or b"" for value in stored.values(sock, topic, partition)]


@pytest.fixture
def proxied(start_broker: Callable[..., KafkalogBroker]) -> Iterator[tuple[KafkalogBroker, Proxy]]:
    """A broker that tells its clients to come through a proxy."""
    port = free_port()
    proxy = Proxy(("127.0.0.1", port), seed=11)
    broker = start_broker(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}",
        }
    )
    broker.address = f"127.0.0.1:{port}"
    try:
        yield broker, proxy
    finally:
        proxy.close()


def write_while_breaking(
    broker: KafkalogBroker, proxy: Proxy, topic: str, partitions: int, breaks: int, seed: int, **properties: Any
) -> tuple[list[list[bytes]], list[tuple[int, int, DeliveryFuture]]]:
    """Send until connections have been broken so often: what was sent, and partition, place and future of each."""
    chance = random.Random(seed)
    sent: list[list[bytes]] = [[] for _ in range(partitions)]
    futures: list[tuple[int, int, DeliveryFuture]] = []
    with producer(broker.bootstrap, **properties) as sending:
        sending.partitions_for(topic)
        proxy.harm = chance.choice([0.02, 0.05, 0.2])
        goal = proxy.broken + breaks
        end = time.monotonic() + DEADLINE_S
        while proxy.broken < goal:
            assert time.monotonic() < end
            for _ in range(chance.randrange(1, 100)):
                partition = chance.randrange(partitions)
                value = b"%d " % len(futures) + b"x" * chance.randrange(100)
                futures.append((partition, len(sent[partition]), sending.send(topic, value, partition=partition)))
                sent[partition].append(value)
            if chance.random() < 0.5:
                futures[-1][2].exception(DEADLINE_S)
        proxy.harm = 0.0
        sending.flush(DEADLINE_S)
    return sent, futures


def check_each_once(
    broker: KafkalogBroker, topic: str, sent: list[list[bytes]], futures: list[tuple[int, int, DeliveryFuture]]
) -> None:
    for partition, place, future in futures:
        found = future.result(DEADLINE_S)
        assert (found.partition, found.offset) == (partition, place)
    assert [values(broker, topic, partition) for partition in range(len(sent))] == sent


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"linger_ms": 1, "batch_size": 200, "compression_type": "lz4"},
        {"batch_size": 1, "max_in_flight_requests_per_connection": 2},
    ],
    ids=["defaults", "small batches", "single records"],
)
def test_broken_connections(proxied: tuple[KafkalogBroker, Proxy], properties: dict[str, Any]) -> None:
    broker, proxy = proxied
    new_topic(broker, "t", 3)
    check_each_once(broker, "t", *write_while_breaking(broker, proxy, "t", 3, 30, 5, **properties))


def test_broken_connections_while_batches_are_split(proxied: tuple[KafkalogBroker, Proxy]) -> None:
    broker, proxy = proxied
    new_topic(broker, "t", 2, max_message_bytes="400")
    check_each_once(broker, "t", *write_while_breaking(broker, proxy, "t", 2, 30, 6, linger_ms=2))


def test_order_without_idempotence(proxied: tuple[KafkalogBroker, Proxy]) -> None:
    """With one request in flight records may be there twice, but nothing is lost or overtaken."""
    broker, proxy = proxied
    new_topic(broker, "t", 2)
    sent, futures = write_while_breaking(
        broker, proxy, "t", 2, 30, 7, enable_idempotence=False, max_in_flight_requests_per_connection=1
    )
    assert all(future.exception(DEADLINE_S) is None for _, _, future in futures)
    assert [list(dict.fromkeys(values(broker, "t", partition))) for partition in (0, 1)] == sent


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_broken_connections_for_long(proxied: tuple[KafkalogBroker, Proxy]) -> None:
    broker, proxy = proxied
    for seed in range(50):
        chance = random.Random(seed)
        partitions = chance.choice([1, 2, 5])
        limits = {"max_message_bytes": chance.choice(["300", "3000"])} if chance.random() < 0.4 else {}
        new_topic(broker, f"t{seed}", partitions, **limits)
        properties = {
            "linger_ms": chance.choice([0, 1, 5]),
            "compression_type": chance.choice(["none", "lz4"]),
            "max_in_flight_requests_per_connection": chance.choice([1, 2, 5]),
        }
        if chance.random() < 0.5:
            properties["batch_size"] = chance.choice([1, 200, 2000])
        outcome = write_while_breaking(broker, proxy, f"t{seed}", partitions, 25, seed, **properties)
        check_each_once(broker, f"t{seed}", *outcome)


def test_killed_brokers(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    new_topic(broker, "t", 2)
    sent: list[list[bytes]] = [[], []]
    futures: list[DeliveryFuture] = []
    stop = threading.Event()
    with producer(broker.bootstrap) as sending:

        def write() -> None:
            while not stop.is_set():
                n = len(futures)
                value = b"%08d" % n
                sent[n % 2].append(value)
                futures.append(sending.send("t", value, partition=n % 2))
                if n % 100 == 0:
                    time.sleep(0.001)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for _ in range(3):
                goal = len(futures) + 2000
                end = time.monotonic() + DEADLINE_S
                while len(futures) < goal or not futures[goal - 1000].done():
                    assert time.monotonic() < end
                    time.sleep(0.01)
                broker.kill()
                broker.start()
        finally:
            stop.set()
            writer.join()
        for n, future in enumerate(futures):
            assert future.result(DEADLINE_S).offset == n // 2
    assert [values(broker, "t", partition) for partition in (0, 1)] == sent


def test_a_broker_that_stalls(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    new_topic(broker, "t")
    with producer(
        broker.bootstrap,
        request_timeout_ms=400,
        delivery_timeout_ms=3000,
        buffer_memory=2000,
        max_block_ms=200,
        socket_connection_setup_timeout_ms=300,
    ) as sending:
        # The first metadata may come later than `max_block_ms` on a slow machine.
        wait_until(lambda: sending.send("t", b"before").exception(DEADLINE_S) is None, "a record is delivered")
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            stuck = sending.send("t", b"x" * 1500)
            full = sending.send("t", b"x" * 1500).exception(DEADLINE_S)
            assert isinstance(full, ClientTimeoutError)
            assert "buffer.memory" in str(full)
            with pytest.raises(ClientTimeoutError):
                sending.flush(0.01)
            error = stuck.exception(DEADLINE_S)
            assert isinstance(error, ClientTimeoutError)
            assert "delivery.timeout.ms" in str(error) or "request.timeout.ms" in str(error)
        finally:
            os.kill(broker.pid, signal.SIGCONT)
        # What was given up may be in the log, once or not at all; the sequence goes on in a new epoch.
        end = time.monotonic() + DEADLINE_S
        while sending.send("t", b"after").exception(DEADLINE_S) is not None:
            assert time.monotonic() < end
        assert sending.send("t", b"last").result(DEADLINE_S).offset > 0
    found = values(broker, "t")
    assert found[0] == b"before"
    assert found[-1] == b"last"
    assert found.count(b"x" * 1500) <= 1


@pytest.fixture
def elsewhere() -> Iterator[tuple[ScriptedBroker, dict[str, int]]]:
    """A broker that leads a partition, and the port at which its metadata places it: one that refuses connections."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        told = {"port": closed.getsockname()[1]}

        def describe(_: MetadataRequest) -> MetadataResponse:
            found = metadata({1: broker}, {("t", 0): 1})
            found.brokers[0].port = told["port"]
            return found

        broker = ScriptedBroker(
            {
                MetadataRequest: describe,
                InitProducerIdRequest: lambda _: InitProducerIdResponse(producer_id=7),
                ProduceRequest: taken,
            }
        )
        with broker:
            yield broker, told


@pytest.mark.parametrize("repeats", [True, False])
def test_a_batch_that_is_called_corrupt_is_sent_again_if_wanted(
    elsewhere: tuple[ScriptedBroker, dict[str, int]], repeats: bool
) -> None:
    broker, told = elsewhere
    told["port"] = broker.port

    def corrupt_at_first(request: ProduceRequest) -> ProduceResponse:
        answer = taken(request)
        if broker.seen[ProduceRequest] == 1:
            answer.responses[0].partition_responses[0].error_code = ErrorCode.CORRUPT_MESSAGE
        return answer

    broker.handlers[ProduceRequest] = corrupt_at_first
    config = ProducerConfig.from_dict({"bootstrap.servers": broker.address, **QUICK})
    with Producer(config, repeats_corrupt=repeats) as sending:
        error = sending.send("t", b"v").exception(DEADLINE_S)
    assert isinstance(error, CorruptMessageError) is not repeats
    assert broker.seen[ProduceRequest] == (2 if repeats else 1)


def test_refused_connections_are_no_attempts(elsewhere: tuple[ScriptedBroker, dict[str, int]]) -> None:
    """As in Java, `retries` counts what was sent; until then a record has the time of `delivery.timeout.ms`."""
    broker, told = elsewhere
    with producer(broker.address, retries=1) as sending:
        future = sending.send("t", b"x")
        # The producer asks for metadata again after each connection that is refused.
        wait_until(lambda: broker.seen[MetadataRequest] >= 8 or future.done(), "many connections were refused")
        assert not future.done()
        told["port"] = broker.port
        future.result(DEADLINE_S)
        assert broker.seen[ProduceRequest] == 1


def test_refused_connections_are_attempts_of_old_producers(elsewhere: tuple[ScriptedBroker, dict[str, int]]) -> None:
    """As in Kafka 0.8, which has no other limit."""
    config = ProducerConfig.from_dict({"bootstrap.servers": elsewhere[0].address, "retries": "1", **QUICK})
    with Producer(config, counts_refusals=True) as sending:
        error = sending.send("t", b"x").exception(DEADLINE_S)
    assert isinstance(error, ConnectionFailedError)


def test_what_was_never_sent_is_not_called_sent(elsewhere: tuple[ScriptedBroker, dict[str, int]]) -> None:
    broker, _ = elsewhere
    with producer(broker.address, delivery_timeout_ms=300, request_timeout_ms=300, linger_ms=0) as sending:
        error = sending.send("t", b"x").exception(DEADLINE_S)
    assert isinstance(error, ClientTimeoutError)
    assert "waiting to be sent" in str(error)


def test_closing_does_not_wait_for_ever(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    new_topic(broker, "t")
    sending = producer(broker.bootstrap)
    sending.send("t", b"x").result(DEADLINE_S)
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        stuck = sending.send("t", b"y")
        sending.close(timeout=0.2)
        assert isinstance(stuck.exception(DEADLINE_S), ClientTimeoutError)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


def test_closing_in_a_callback_delivers_the_rest(proxied: tuple[KafkalogBroker, Proxy]) -> None:
    """Even where that takes new connections and new metadata."""
    broker, proxy = proxied
    new_topic(broker, "t", 2)
    sending = producer(broker.bootstrap, linger_ms=60_000, batch_size=1000)

    def close(future: DeliveryFuture) -> None:
        sending.close()
        proxy.shut = True
        proxy.hang_up()

    lingering = sending.send("t", b"lingering", partition=1)
    sending.send("t", b"x" * 1000, partition=0).add_done_callback(close)
    end = time.monotonic() + DEADLINE_S
    while proxy.broken < 5 and not lingering.done():
        assert time.monotonic() < end
        time.sleep(0.01)
    proxy.shut = False
    assert lingering.result(DEADLINE_S).offset == 0
    with pytest.raises(ProducerClosedError):
        sending.send("t", b"x")


def test_closing_while_nobody_answers() -> None:
    """Nothing can be reached at all, and what was sent before is given up when close() has waited long enough."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        sending = producer("{}:{}".format(*silent.getsockname()), max_block_ms=100)
        assert isinstance(sending.send("t", b"x").exception(DEADLINE_S), ClientTimeoutError)
        sending.close(timeout=0.1)


def test_a_sequence_that_the_broker_lost(start_broker: Callable[..., KafkalogBroker]) -> None:
    """A topic deleted and created again knows nothing of the producer, which goes on in a new epoch."""
    broker = start_broker()
    new_topic(broker, "t")
    with producer(broker.bootstrap) as sending:
        for n in range(10):
            assert sending.send("t", b"old").result(DEADLINE_S).offset == n
        from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest
        from tests.support.wire import exchange

        with broker.connect() as sock:
            response = exchange(sock, DeleteTopicsRequest(topic_names=["t"], timeout_ms=10_000), 3)
            assert response.responses[0].error_code == 0
        new_topic(broker, "t")
        assert sending.send("t", b"new").result(DEADLINE_S).offset == 0
        assert sending.send("t", b"newer").result(DEADLINE_S).offset == 1
    assert values(broker, "t") == [b"new", b"newer"]


def test_what_follows_an_expired_batch_is_not_appended_twice(proxied: tuple[KafkalogBroker, Proxy]) -> None:
    """Both batches are in the log, unknown to the producer; the first is given up, the second is sent again."""
    broker, proxy = proxied
    new_topic(broker, "t")
    # The second is sent late, so that it has that much time when the first is given up; but before the first's answer
    # is given up, on the same connection.
    limits = {"request_timeout_ms": 3500, "delivery_timeout_ms": 4000}
    with producer(f"127.0.0.1:{proxy.port}", **limits) as sending:
        assert sending.send("t", b"before").result(DEADLINE_S).offset == 0
        proxy.mute = True
        first = sending.send("t", b"first")
        first_sent = time.monotonic()
        while values(broker, "t") != [b"before", b"first"] or time.monotonic() < first_sent + 3:
            assert time.monotonic() < first_sent + DEADLINE_S
            time.sleep(0.01)
        second = sending.send("t", b"second")
        proxy.shut = True
        assert isinstance(first.exception(DEADLINE_S), ClientTimeoutError)
        proxy.shut = proxy.mute = False
        assert second.result(DEADLINE_S).offset == 2
        assert sending.send("t", b"third").result(DEADLINE_S).offset == 3
    assert values(broker, "t") == [b"before", b"first", b"second", b"third"]


def test_a_topic_created_again_with_fewer_partitions(start_broker: Callable[..., KafkalogBroker]) -> None:
    """Keys go to the partitions that there are, also when there are more again."""
    broker = start_broker({"auto.create.topics.enable": "false"})
    new_topic(broker, "t", 4)
    keys = [b"%d" % n for n in range(40)]
    config = ClientConfig.from_dict({"bootstrap.servers": broker.bootstrap})
    with producer(broker.bootstrap) as sending, Admin(config) as admin:

        def partitions_of_keys() -> set[int]:
            return {sending.send("t", b"x", key).result(DEADLINE_S).partition for key in keys}

        assert partitions_of_keys() == {0, 1, 2, 3}
        admin.delete_topics(["t"])
        new_topic(broker, "t", 2)
        # What is sent before the producer learns of that cannot be delivered.
        end = time.monotonic() + DEADLINE_S
        sending.send("t", b"x", partition=0).result(DEADLINE_S)
        while sending.partitions_for("t") != [0, 1]:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert partitions_of_keys() == {0, 1}
        admin.create_partitions({"t": 3})
        while sending.partitions_for("t") != [0, 1, 2]:
            assert time.monotonic() < end
            time.sleep(0.01)
        assert partitions_of_keys() == {0, 1, 2}


@pytest.mark.parametrize("bad_first", [True, False])
def test_a_refused_batch_does_not_stop_those_behind_it(
    start_broker: Callable[..., KafkalogBroker], bad_first: bool
) -> None:
    """A compacted topic refuses records without a key; the sequence closes over the gap."""
    broker = start_broker()
    new_topic(broker, "t", cleanup_policy="compact")
    with producer(broker.bootstrap, batch_size=1) as sending:
        futures = []
        for n in range(100):
            bad = n % 10 == (0 if bad_first else 5)
            futures.append((bad, sending.send("t", b"%d" % n, None if bad else b"key")))
        for bad, future in futures:
            error = future.exception(DEADLINE_S)
            assert (error is not None) == bad
    good = [b"%d" % n for n in range(100) if n % 10 != (0 if bad_first else 5)]
    assert values(broker, "t") == good
