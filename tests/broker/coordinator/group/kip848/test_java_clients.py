"""Tests of Apache Kafka's console consumer with `group.protocol=consumer`, and `kafka-consumer-groups`."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from peers import require
from peers.brokers import kafka
from peers.process import Process
from tests.support.kafkalog_broker import KafkalogBroker

_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_CONSOLE = "org.apache.kafka.tools.consumer.ConsoleConsumer"
_DEADLINE_S = 240.0


@pytest.fixture(scope="module")
def topic(broker: KafkalogBroker) -> str:
    """A topic of four partitions with a hundred records."""
    name = f"java-{uuid4()}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 4, 1)])[name].result(60)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(100):
        producer.produce(name, f"value-{number}", partition=number % 4)
    assert producer.flush(60) == 0
    return name


@pytest.mark.peer
@pytest.mark.parametrize(("version", "by"), [("3.9.2", "--topic"), ("4.3.1", "--topic"), ("4.3.1", "--include")])
def test_the_console_consumer(broker: KafkalogBroker, topic: str, version: str, by: str, tmp_path: Path) -> None:
    require(kafka.missing(version))
    group = f"group-{uuid4()}"
    server = ["--bootstrap-server", broker.bootstrap]
    setting = "--command-property" if version.startswith("4") else "--consumer-property"
    output = tmp_path / "console.out"
    consumer = Process(
        kafka.tool_line(
            _CONSOLE,
            [*server, by, topic, "--group", group, "--from-beginning", setting, "group.protocol=consumer"],
            version,
        ),
        output,
    )

    def ask(*args: str) -> list[list[str]]:
        command = [*server, "--timeout", "120000", *args]
        return [line.split() for line in kafka.run_java_tool(_GROUPS, command, version).splitlines()]

    try:
        consumer.wait_until(lambda: output.read_text().count("value-") == 100, _DEADLINE_S)
        members = [line for line in ask("--describe", "--group", group, "--members", "--verbose") if line]
        assert [line[0] for line in members] == ["GROUP", group]
        assert any("0,1,2,3" in word for word in members[1])
    finally:
        consumer.stop()
    lags = [line for line in ask("--describe", "--group", group) if line and line[0] == group]
    assert sorted(line[2] for line in lags) == ["0", "1", "2", "3"]
    assert {line[5] for line in lags} == {"0"}
