"""Test that the examples of docs/ that need no Spark run unchanged, one after another."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.types import TopicPartition
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.sources.pages import run_page

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def address(start_broker: Callable[..., KafkalogBroker]) -> str:
    """A broker that is new, as a reader's is, but does not wait for more members when a group begins."""
    return start_broker({"group.initial.rebalance.delay.ms": "0"}).address


def committed(address: str, topic: str, count: int) -> list[bytes | None]:
    """The values of so many records that are committed."""
    config = ClientConfig.from_dict(
        {"bootstrap.servers": address, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
    )
    with SimpleConsumer(config) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        values: list[bytes | None] = []
        while len(values) < count:
            values += [record.value for record in consumer.poll(10.0)]
    return values


def test_producer(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_page("how-to/producer.md", address, blocks=5)
    printed = capsys.readouterr().out
    assert re.search(r"^words 0 \d+$", printed, re.MULTILINE)
    assert "records at offsets" in printed
    assert "delivered: RecordMetadata" in printed
    assert names["left"].began


def test_consumer(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    names = run_page("how-to/consumer.md", address, blocks=6)
    printed = capsys.readouterr().out
    assert re.findall(r"^words 0 (\d) (.+)$", printed, re.MULTILINE) == [("0", "b'to'"), ("1", "b'be'"), ("2", "b'or'")]
    assert names["table"].column("value").to_pylist() == [b"to", b"be", b"or"]
    assert names["table"].column_names == ["key", "value", "timestamp"]
    assert names["handled"] == [b"to", b"be", b"or"] * 2
    assert names["store"].execute("SELECT word FROM words").fetchall() == [("to",), ("be",), ("or",)]
    assert names["store"].execute("SELECT * FROM positions").fetchall() == [("words", 0, 3)]
    assert "TopicPartition(topic='words', partition=0)" in printed


def test_groups(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_page("explanation/groups.md", address, blocks=1)
    assert "TopicPartition(topic='orders', partition=0)" in capsys.readouterr().out


def test_transactions(address: str) -> None:
    run_page("explanation/transactions.md", address, blocks=1)
    assert committed(address, "shouts", 3) == [b"TO", b"BE", b"OR"]


def test_quotas(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    run_page("how-to/quotas.md", address, blocks=1)
    assert "{'user': None, 'client-id': 'loader'} {'producer_byte_rate': 1048576.0}" in capsys.readouterr().out.replace(
        "{'client-id': 'loader', 'user': None}", "{'user': None, 'client-id': 'loader'}"
    )
