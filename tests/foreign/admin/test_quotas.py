"""Tests of foreign clients and tools with client quotas."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer, ThrottleEvent

from kafkalog.client.admin.quotas import QuotaAdmin
from kafkalog.client.config import ClientConfig
from peers import require
from peers.brokers import kafka
from peers.brokers.kafka_tools import CONFIGS, KafkaTools
from peers.toolchains import java
from tests.support.command import call
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

SOURCE = Path(__file__).with_name("Quotas.java")


@pytest.fixture
def limited(start_broker: Callable[..., KafkalogBroker]) -> KafkalogBroker:
    """With windows of three seconds, so that a test waits no longer."""
    return start_broker(
        {"quota.window.num": "3", "controller.quota.window.num": "3", "auto.create.topics.enable": "true"}
    )


@pytest.fixture
def quotas(limited: KafkalogBroker) -> Iterator[QuotaAdmin]:
    with QuotaAdmin(ClientConfig.from_dict({"bootstrap.servers": limited.bootstrap})) as admin:
        yield admin


@pytest.mark.peer
@pytest.mark.parametrize("version", [kafka.KAFKA_3, kafka.KAFKA_4])
def test_javas_clients_wait_and_come_through(limited: KafkalogBroker, quotas: QuotaAdmin, version: str) -> None:
    require(java.missing())
    require(kafka.missing(version))
    quotas.alter({"client-id": "java-producer"}, {"producer_byte_rate": 20_000})
    quotas.alter({"client-id": "java-consumer"}, {"consumer_byte_rate": 20_000})
    quotas.alter({"client-id": "java-admin"}, {"controller_mutation_rate": 5})
    printed = java.run_java(kafka.kafka_classpath(version), str(SOURCE), [limited.bootstrap, "throttled"])
    assert printed.splitlines() == ["produced 60 true", "consumed 60 true", "created 4 true"]


def test_librdkafka_is_told(limited: KafkalogBroker, quotas: QuotaAdmin) -> None:
    quotas.alter({"user": "ANONYMOUS", "client-id": "fast"}, {"producer_byte_rate": 5_000})
    events: list[ThrottleEvent] = []
    producer = Producer(
        {"bootstrap.servers": limited.bootstrap, "client.id": "fast", "linger.ms": 0, "batch.size": 1000,
         "throttle_cb": events.append}
    )  # fmt: skip
    for _ in range(20):
        producer.produce("told", b"x" * 1000)
    wait_until(lambda: producer.poll(0.1) is not None and bool(events), "a throttle event")
    assert producer.flush(120) == 0
    assert any(event.throttle_time > 0 for event in events)


@pytest.mark.peer
@pytest.mark.parametrize("version", [kafka.KAFKA_3, kafka.KAFKA_4])
def test_kafkas_tool_and_ours_say_the_same(limited: KafkalogBroker, version: str) -> None:
    require(kafka.missing(version))
    server = ("--bootstrap-server", limited.bootstrap)
    user, client = f"user-{uuid.uuid4().hex[:6]}", "client/with ,odd=name"
    with KafkaTools(version) as tools:

        def theirs(*words: str) -> list[str]:
            return tools.run(CONFIGS, *server, *words)

        def ours(action: str, *words: str) -> list[str]:
            return call("configs", action, *server, *words).out

        both = ("--entity-type", "users", "--entity-name", user, "--entity-type", "clients", "--entity-name", client)
        rate = ("--add-config", "producer_byte_rate=1024,request_percentage=12.5")
        assert theirs("--alter", *both, *rate) == [f"Completed updating config for user {user}."]
        assert ours("alter", "--user-defaults", "--client-defaults", "--add-config", "consumer_byte_rate=2048") == [
            "Completed updating default config for users in the cluster."
        ]
        assert ours("alter", "--ip", "127.0.0.5", "--add-config", "connection_creation_rate=50") == [
            "Completed updating config for ip 127.0.0.5."
        ]
        theirs("--alter", "--client", client, "--add-config", "controller_mutation_rate=0.5")
        theirs("--alter", "--user", user, "--add-config", "consumer_byte_rate=7")
        asked = (
            ["--entity-type", "users"],
            ["--entity-type", "users", "--entity-type", "clients"],
            ["--entity-type", "clients"],
            ["--entity-type", "ips"],
            [*both],
            ["--user", user],
            ["--user-defaults", "--client-defaults"],
            ["--ip-defaults"],
        )
        found = [sorted(_without_scram(theirs("--describe", *words))) for words in asked]
        assert found == [sorted(ours("describe", *words)) for words in asked]
        assert [len(lines) for lines in found] == [1, 2, 1, 1, 1, 1, 1, 0]
        assert found[5] == [f"Quota configs for user-principal '{user}' are consumer_byte_rate=7.0"]
        theirs("--alter", *both, "--delete-config", "producer_byte_rate")
        assert ours("describe", *both) == [
            f"Quota configs for user-principal '{user}', client-id '{client}' are request_percentage=12.5"
        ]
        ours("alter", "--user", user, "--delete-config", "consumer_byte_rate")
        assert ours("describe", "--user", user) == []


def _without_scram(lines: list[str]) -> list[str]:
    """Return the lines about quotas, without those in which Kafka's tool says that a user has no SCRAM credentials."""
    assert all("does not exist" in line for line in lines if "SCRAM" in line)
    return [line for line in lines if "SCRAM" not in line]
