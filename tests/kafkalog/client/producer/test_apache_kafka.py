"""Tests of the producer with Apache Kafka: partitions, security, crashes."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import AuthenticationError
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.producer import DeliveryFuture, Producer
from kafkalog.client.types import ConsumerRecord, TopicPartition
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka import KAFKA_4, ApacheKafka, run_java_tool
from peers.brokers.secured_kafka import ALICE, SecuredKafka, password_of
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.peer, pytest.mark.timeout(600)]

DEADLINE_S = 240.0
RESTART_DEADLINE_S = 240.0


@pytest.fixture
def server(secured_kafkas: Callable[[str], SecuredKafka]) -> SecuredKafka:
    return secured_kafkas(KAFKA_4)


def new_topic(server: ApacheKafka, partitions: int) -> str:
    name = f"producer-{uuid.uuid4().hex[:12]}"
    with Admin(ClientConfig.from_dict({"bootstrap.servers": server.bootstrap})) as admin:
        admin.create_topics([NewTopic(name, partitions, 1)])
    return name


def read(server: ApacheKafka, topic: str, partitions: int, count: int) -> list[ConsumerRecord]:
    config = ClientConfig.from_dict({"bootstrap.servers": server.bootstrap, "auto.offset.reset": "earliest"})
    records: list[ConsumerRecord] = []
    with SimpleConsumer(config) as consumer:
        consumer.assign(TopicPartition(topic, number) for number in range(partitions))
        end = time.monotonic() + DEADLINE_S
        while len(records) < count:
            assert time.monotonic() < end
            records += consumer.poll(0.5)
        # Whatever is there beyond what was expected.
        records += consumer.poll(0.5)
    return records


def test_keys_share_partitions_with_java(server: SecuredKafka) -> None:
    topic = new_topic(server, 7)
    keys = [f"key-{n}-{'ü' * (n % 5)}" for n in range(100)]
    run_java_tool(
        "org.apache.kafka.tools.ConsoleProducer",
        ["--bootstrap-server", server.bootstrap, "--topic", topic, "--property", "parse.key=true"],
        stdin="".join(f"{key}\tjava\n" for key in keys),
    )
    with Producer({"bootstrap.servers": server.bootstrap}) as producer:
        for key in keys:
            producer.send(topic, b"ours", key.encode())
    homes: dict[bytes | None, set[int]] = {}
    records = read(server, topic, 7, 200)
    assert len(records) == 200
    for record in records:
        homes.setdefault(record.key, set()).add(record.partition)
    assert len(homes) == 100
    assert all(len(partitions) == 1 for partitions in homes.values())


@pytest.mark.parametrize(
    ("protocol", "mechanism"),
    [("SSL", "PLAIN"), ("SASL_PLAINTEXT", "SCRAM-SHA-256"), ("SASL_SSL", "SCRAM-SHA-512")],
)
def test_secure_listeners(server: SecuredKafka, protocol: str, mechanism: str) -> None:
    topic = new_topic(server, 1)
    with secure_producer(server, protocol, mechanism) as producer:
        futures = [producer.send(topic, b"%d" % n * 100) for n in range(5000)]
        assert [future.result(DEADLINE_S).offset for future in futures] == list(range(5000))


def test_a_wrong_password(server: SecuredKafka) -> None:
    with secure_producer(server, "SASL_SSL", "SCRAM-SHA-512", **{"sasl.password": "guessed"}) as producer:
        error = producer.send("any", b"x").exception(DEADLINE_S)
    assert isinstance(error, AuthenticationError)
    assert "alice" in str(error)


def secure_producer(server: SecuredKafka, protocol: str, mechanism: str, **more: Any) -> Producer:
    return Producer(
        {
            "bootstrap.servers": server.addresses[protocol],
            "security.protocol": protocol,
            "ssl.ca.location": server.certificates.authority,
            "sasl.mechanism": mechanism,
            "sasl.username": ALICE,
            "sasl.password": password_of(ALICE),
            **more,
        }
    )


def test_killed_while_written_to() -> None:
    """A broker that is killed and comes back has every record, once and in order."""
    require(kafka.missing(KAFKA_4))
    with ApacheKafka(KAFKA_4) as server:
        topic = new_topic(server, 1)
        futures: list[DeliveryFuture] = []
        stop = threading.Event()
        with Producer({"bootstrap.servers": server.bootstrap, "reconnect.backoff.max.ms": 100}) as producer:

            def write() -> None:
                while not stop.wait(0.005):
                    futures.extend([producer.send(topic, b"%d" % (len(futures) + n)) for n in range(20)])

            writer = threading.Thread(target=write)
            writer.start()
            try:
                wait_until(lambda: len(futures) > 2000 and futures[1000].done(), "records delivered")
                server.process.kill()
                server.exec()
                goal = len(futures) + 1000
                wait_until(
                    lambda: len(futures) > goal and futures[goal].done(), "records delivered again", RESTART_DEADLINE_S
                )
            finally:
                stop.set()
                writer.join()
            assert [future.result(DEADLINE_S).offset for future in futures] == list(range(len(futures)))
        records = read(server, topic, 1, len(futures))
        assert [record.value for record in records] == [b"%d" % n for n in range(len(futures))]
