"""Tests of signals that end `kafkalog produce` and `kafkalog consume`."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from tests.support.command import DEADLINE_S, command, run, start
from tests.support.console import consume, produce
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_consumer_is_interrupted(broker_address: str, topic: str, number: signal.Signals, code: int) -> None:
    produce(broker_address, topic, b"one\n")
    with start("consume", "--bootstrap-server", broker_address, "--topic", topic, "--from-beginning") as consumer:
        assert consumer.stdout is not None
        assert consumer.stderr is not None
        try:
            assert consumer.stdout.readline() == b"one\n"
            consumer.send_signal(number)
            assert consumer.wait(DEADLINE_S) == code
            assert consumer.stderr.read() == b"Processed a total of 1 messages\n"
        finally:
            consumer.kill()


def test_a_member_leaves_its_group_though_the_signal_comes_twice(broker_address: str, topic: str) -> None:
    # As `timeout` sends it, to the command and to its process group.
    group = f"of-{topic}"
    produce(broker_address, topic, b"one\n")
    words = ["consume", "--bootstrap-server", broker_address, "--topic", topic, "--from-beginning", "--group", group]
    with start(*words) as consumer:
        assert consumer.stdout is not None
        try:
            assert consumer.stdout.readline() == b"one\n"
            consumer.send_signal(signal.SIGTERM)
            consumer.send_signal(signal.SIGINT)
            code = consumer.wait(DEADLINE_S)
            assert consumer.stderr is not None
            assert code in (130, 143), consumer.stderr.read().decode()
        finally:
            consumer.kill()
    done = run("groups", "describe", "--bootstrap-server", broker_address, "--group", group, "--state", "--json")
    found = json.loads(done.stdout)
    assert (found["state"], found["members"]) == ("Empty", 0)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """Open a terminal; yield the end that the test types at, and the command's standard input."""
    ends = pty.openpty()
    yield ends
    for end in ends:
        os.close(end)


def typing(broker_address: str, topic: str, terminal: tuple[int, int]) -> subprocess.Popen[bytes]:
    """A producer that has read a line, which lingers: the second prompt shows it."""
    words = ["produce", "--bootstrap-server", broker_address, "--topic", topic, "--timeout", "60000"]
    producer = subprocess.Popen(command(*words), stdin=terminal[1], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert producer.stdout is not None
    assert producer.stdout.read(1) == b">"
    os.write(terminal[0], b"lingers\n")
    assert producer.stdout.read(1) == b">"
    return producer


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([signal.SIGINT], [130]),
        ([signal.SIGTERM], [143]),
        # As `timeout` sends it, to the command and to its process group.
        ([signal.SIGTERM, signal.SIGINT], [130, 143]),
    ],
    ids=["SIGINT", "SIGTERM", "twice at once"],
)
def test_an_interrupted_producer_delivers_what_it_has_read(
    broker_address: str, topic: str, terminal: tuple[int, int], numbers: list[signal.Signals], codes: list[int]
) -> None:
    with typing(broker_address, topic, terminal) as producer:
        try:
            for number in numbers:
                producer.send_signal(number)
            _, said = producer.communicate(timeout=DEADLINE_S)
        finally:
            producer.kill()
    assert producer.returncode in codes
    assert said == b""
    assert consume(broker_address, topic, 1) == b"lingers\n"


def test_a_producer_that_is_interrupted_again_gives_up(
    start_broker: Callable[..., KafkalogBroker], terminal: tuple[int, int]
) -> None:
    broker = start_broker()
    with typing(broker.address, "t", terminal) as producer:
        os.kill(broker.pid, signal.SIGSTOP)
        try:

            def ended() -> bool:
                # What comes at once after the first is no second one.
                producer.send_signal(signal.SIGINT)
                return producer.poll() is not None

            wait_until(ended, "the producer has ended", DEADLINE_S)
            assert producer.stderr is not None
            said = producer.stderr.read()
        finally:
            os.kill(broker.pid, signal.SIGCONT)
            producer.kill()
    assert producer.returncode == 130
    assert said.endswith(b"kafkalog: 1 records may not have been delivered\n")


def test_an_interrupted_transaction_is_told(broker_address: str, topic: str) -> None:
    words = ("produce", "--bootstrap-server", broker_address, "--topic", topic)
    producer = start(*words, "--producer-property", f"transactional.id={topic}", "--sync")
    assert producer.stdin is not None
    producer.stdin.write(b"one\ntwo\n")
    producer.stdin.flush()
    config = {"bootstrap.servers": broker_address, "group.id": "unused", "isolation.level": "read_uncommitted"}
    consumer = Consumer(config)
    wait_until(lambda: consumer.get_watermark_offsets(TopicPartition(topic, 0))[1] == 2, "both records are in the log")
    consumer.close()
    producer.send_signal(signal.SIGINT)
    _, said = producer.communicate(timeout=DEADLINE_S)
    assert producer.returncode == 130
    assert said.endswith(b"kafkalog: the transaction was aborted: 2 records are not committed\n")
