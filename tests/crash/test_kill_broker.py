"""Test that acknowledged records are in the log once and in place after kill -9 of the broker during writes."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from peers.process import PeerFailedError, free_port
from tests.crash.support import DEADLINE_S, PARTITIONS, create_topic, read_all
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until


@pytest.mark.parametrize("idempotent", [True, False])
def test_acknowledged_records_survive_kills(start_broker: Callable[..., KafkalogBroker], idempotent: bool) -> None:
    broker = start_broker({"log.segment.bytes": "65536"})
    create_topic(broker, "t")
    chance = random.Random(7 if idempotent else 8)
    acked: dict[tuple[int, int], bytes] = {}
    failed: Counter[str] = Counter()

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failed[str(error)] += 1
        else:
            key = (message.partition(), message.offset())
            assert key not in acked, f"two records were acknowledged at {key}"
            acked[key] = message.value()

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": idempotent,
            "acks": "all" if idempotent else "1",
            "linger.ms": 1,
            "batch.size": 16384,  # less than a segment
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 100,
            "retry.backoff.ms": 20,
        }
    )
    sent = 0
    for _ in range(4):
        goal = len(acked) + chance.randrange(500, 3000)
        end = time.monotonic() + DEADLINE_S
        while len(acked) < goal:
            assert time.monotonic() < end, "the broker stopped acknowledging"
            for _ in range(100 if len(producer) < 20_000 else 0):
                producer.produce(
                    "t",
                    b"%09d" % sent + b"." * chance.randrange(100),
                    partition=sent % PARTITIONS,
                    callback=delivered,
                )
                sent += 1
            producer.poll(0.001)
        broker.kill()
        broker.start()
    assert producer.flush(DEADLINE_S) == 0

    seen: Counter[bytes] = Counter()
    for partition in range(PARTITIONS):
        records = read_all(broker, "t", partition)
        assert list(records) == list(range(len(records))), "offsets are dense"
        for (where, offset), value in acked.items():
            if where == partition:
                assert records[offset] == value
        seen.update(records.values())
    if idempotent:
        assert not failed
        assert len(acked) == sent
        assert max(seen.values()) == 1, "a retried batch was appended twice"
        assert sum(seen.values()) == sent


TAILS = {
    "torn batch": lambda data: data + data[:40],
    "torn header": lambda data: data + data[:17],
    "zeroes": lambda data: data + b"\0" * 4096,
    "noise": lambda data: data + bytes(random.Random(3).randbytes(777)),
    "flipped bit in a repeated batch": lambda data: data + data[:80] + bytes([data[80] ^ 1]) + data[81:],
}


@pytest.mark.parametrize("tail", TAILS.values(), ids=TAILS.keys())
def test_a_damaged_tail_is_cut_off(start_broker: Callable[..., KafkalogBroker], tail: Callable[[bytes], bytes]) -> None:
    broker = start_broker()
    create_topic(broker, "t", 1)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(100):
        producer.produce("t", b"value-%d" % n, partition=0)
    assert producer.flush(30) == 0
    broker.kill()
    segment = broker.log_dir / "t-0" / "00000000000000000000.log"
    data = segment.read_bytes()
    segment.write_bytes(tail(data))
    for index in broker.log_dir.glob("t-0/*index"):
        index.unlink()
    broker.start()
    assert read_all(broker, "t", 0) == {n: b"value-%d" % n for n in range(100)}
    assert segment.stat().st_size == len(data)
    producer.produce("t", b"after", partition=0)
    assert producer.flush(30) == 0
    assert read_all(broker, "t", 0)[100] == b"after"


def test_a_clean_stop_needs_no_recovery(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    create_topic(broker, "t", 2)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("t", b"x", partition=1)
    assert producer.flush(30) == 0
    assert broker.stop() == 0
    assert (broker.log_dir / ".kafka_cleanshutdown").exists()
    broker.start()
    assert not (broker.log_dir / ".kafka_cleanshutdown").exists()
    assert read_all(broker, "t", 1) == {0: b"x"}
    assert read_all(broker, "t", 0) == {}


def test_topics_and_their_settings_survive(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    create_topic(broker, "kept", 2, **{"retention.ms": "12345"})
    create_topic(broker, "gone", 2)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics(["gone"])["gone"].result(30)
    before = admin.list_topics(timeout=20)
    broker.kill()
    broker.start()
    after = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=20)
    assert after.cluster_id == before.cluster_id
    assert {name: len(topic.partitions) for name, topic in after.topics.items()} == {"kept": 2}
    wait_until(lambda: not list(broker.log_dir.glob("gone-*")), "the deleted partitions' directories are gone")


def test_producer_ids_are_never_given_twice(start_broker: Callable[..., KafkalogBroker]) -> None:
    from kafkalog.protocol.messages.init_producer_id import InitProducerIdRequest
    from tests.support.wire import exchange

    broker = start_broker()
    seen = set()
    for _ in range(3):
        with broker.connect() as sock:
            for _ in range(5):
                response = exchange(sock, InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1), 1)
                assert response.error_code == 0
                assert response.producer_id not in seen
                seen.add(response.producer_id)
        broker.kill()
        broker.start()


def test_a_second_broker_on_the_same_directory_is_refused(
    start_broker: Callable[..., KafkalogBroker], tmp_path: Path
) -> None:
    broker = start_broker()
    second = KafkalogBroker(tmp_path / "second", {"log.dirs": str(broker.log_dir)})
    with pytest.raises(PeerFailedError, match=r"ended with 1:[\s\S]*" + str(broker.log_dir)):
        second.start()
    assert broker.running
    broker.kill()
    second.start()
    second.kill()


def test_an_address_in_use_is_refused(start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    broker = start_broker()
    second = KafkalogBroker(tmp_path / "second")
    second.address = broker.address
    with pytest.raises(PeerFailedError, match="failed to bind"):
        second.start()


def test_a_changed_broker_id_is_refused(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"broker.id": "3"})
    assert broker.stop() == 0
    broker.overrides["broker.id"] = "4"
    with pytest.raises(PeerFailedError, match=r"meta\.properties"):
        broker.start()
    broker.overrides["broker.id"] = "3"
    broker.start()


def test_a_damaged_registry_is_named(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()
    create_topic(broker, "t")
    broker.kill()
    registry = broker.log_dir / "kafkalog.metadata.json"
    whole = registry.read_bytes()
    registry.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(PeerFailedError, match=r"kafkalog\.metadata\.json is damaged"):
        broker.start()
    registry.write_bytes(whole)
    broker.start()
    assert read_all(broker, "t", 0) == {}


def test_listening_on_several_addresses(start_broker: Callable[..., KafkalogBroker]) -> None:
    inside, outside = free_port(), free_port()
    broker = start_broker(
        {
            "listeners": f"PLAINTEXT://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTSIDE:PLAINTEXT",
            "advertised.listeners": f"OUTSIDE://localhost:{outside}",
        }
    )
    create_topic(broker, "t", 1)
    metadata = AdminClient({"bootstrap.servers": f"127.0.0.1:{outside}"}).list_topics(timeout=20)
    assert {f"{b.host}:{b.port}" for b in metadata.brokers.values()} == {f"localhost:{outside}"}
    metadata = AdminClient({"bootstrap.servers": f"127.0.0.1:{inside}"}).list_topics(timeout=20)
    assert {f"{b.host}:{b.port}" for b in metadata.brokers.values()} == {f"127.0.0.1:{inside}"}
