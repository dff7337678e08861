"""Test that commands report a missing broker soon, once and under their name, also if it stops or comes back."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from peers import process
from tests.support.command import call, run, start
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

NO_BROKER = r"kafkalog: no broker answers; trying again: .+"


def told(path: Path) -> list[str]:
    return path.read_text().splitlines()


@pytest.fixture
def free_port() -> int:
    """A port at which nothing listens, and that no connection gets."""
    return process.free_port()


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "list"),
        ("configs", "describe", "--entity-type", "brokers", "--entity-name", "0"),
        ("groups", "list"),
        ("transactions", "list"),
        ("delegation-tokens", "describe"),
    ],
)
def test_a_command_gives_up_after_its_timeout(words: tuple[str, ...], free_port: int) -> None:
    ended = call(*words, "--bootstrap-server", f"127.0.0.1:{free_port}", "--timeout", "500", check=1)
    assert ended.out == []
    warning, end = ended.err.splitlines()
    assert re.fullmatch(NO_BROKER, warning)
    assert f"cannot connect to 127.0.0.1:{free_port}: " in warning
    # The last try may have had no time left.
    assert re.fullmatch(r"kafkalog: gave up after \d+ tries: (.+; before that: )?cannot connect to .+", end)


def test_a_name_that_no_host_has_is_told_at_once() -> None:
    ended = call("topics", "list", "--bootstrap-server", "no-such-host.invalid:9092", check=2)
    assert ended.out == []
    (line,) = ended.err.splitlines()
    assert line.startswith("kafkalog: bootstrap.servers names no host that can be found: ")
    assert "no-such-host.invalid:9092" in line


def test_a_host_that_does_not_answer_is_told_before_the_setup_timeout() -> None:
    with socket.socket() as full:
        # What comes on top of a listener's backlog is dropped, as a firewall does.
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        address = full.getsockname()
        waiting = [socket.socket() for _ in range(4)]
        try:
            for each in waiting:
                each.setblocking(False)
                each.connect_ex(address)
            server = f"127.0.0.1:{address[1]}"
            # Less than socket.connection.setup.timeout.ms, which would take all of it.
            ended = call("topics", "list", "--bootstrap-server", server, "--timeout", "5000", check=1)
        finally:
            for each in waiting:
                each.close()
    assert re.fullmatch(NO_BROKER, ended.err.splitlines()[0]), ended.err
    assert re.search(r"gave up after [2-9] tries", ended.err)


def test_the_broker_comes_later(free_port: int, start_broker: Callable[..., KafkalogBroker], tmp_path: Path) -> None:
    path = tmp_path / "err"
    with path.open("wb") as err:
        command = start("topics", "list", "--bootstrap-server", f"127.0.0.1:{free_port}", stderr=err)
        try:
            wait_until(lambda: "\n" in path.read_text(), "a word about the broker")
            start_broker({"listeners": f"PLAINTEXT://127.0.0.1:{free_port}"})
            assert command.wait(90) == 0
        finally:
            command.kill()
    warning, connected = told(path)
    assert re.fullmatch(NO_BROKER, warning)
    assert connected == f"kafkalog: connected to 127.0.0.1:{free_port}"


@pytest.mark.parametrize(
    "group", [(), ("--group", "readers", "--consumer-property", "enable.auto.commit=false")], ids=["alone", "member"]
)
def test_the_broker_goes_and_comes_back(
    group: tuple[str, ...], start_broker: Callable[..., KafkalogBroker], tmp_path: Path
) -> None:
    broker = start_broker()
    to = ("--bootstrap-server", broker.address)
    run("topics", "create", *to, "--topic", "words")
    run("produce", *to, "--topic", "words", stdin=b"before\n")
    path, printed = tmp_path / "err", tmp_path / "out"
    with path.open("wb") as err, printed.open("wb") as out:
        more = ("--from-beginning", "--max-messages", "2")
        consumer = start("consume", *to, "--topic", "words", *group, *more, stdout=out, stderr=err)
        try:
            wait_until(lambda: told(printed) == ["before"], "the first record")
            broker.kill()
            wait_until(lambda: len(told(path)) == 1, "a word about the broker")
            broker.start()
            run("produce", *to, "--topic", "words", stdin=b"after\n")
            assert consumer.wait(90) == 0
        finally:
            consumer.kill()
    assert told(printed) == ["before", "after"]
    warning, connected, count = told(path)
    assert re.fullmatch(NO_BROKER, warning)
    assert connected == f"kafkalog: connected to {broker.address}"
    assert count == "Processed a total of 2 messages"


def test_a_producer_waits_for_its_broker(
    free_port: int, start_broker: Callable[..., KafkalogBroker], tmp_path: Path
) -> None:
    path = tmp_path / "err"
    with path.open("wb") as err:
        producer = start("produce", "--bootstrap-server", f"127.0.0.1:{free_port}", "--topic", "words", stderr=err)
        try:
            assert producer.stdin is not None
            producer.stdin.write(b"hello\n")
            producer.stdin.close()
            wait_until(lambda: "\n" in path.read_text(), "a word about the broker")
            start_broker({"listeners": f"PLAINTEXT://127.0.0.1:{free_port}"})
            assert producer.wait(90) == 0
        finally:
            producer.kill()
    warning, connected = told(path)
    assert re.fullmatch(NO_BROKER, warning)
    assert connected == f"kafkalog: connected to 127.0.0.1:{free_port}"


@pytest.mark.parametrize(
    "words",
    [
        ("configs", "describe"),
        ("configs", "alter", "--add-config", "retention.ms=1"),
        ("groups", "reset-offsets", "--group", "readers", "--to-earliest"),
        ("groups", "delete-offsets", "--group", "readers"),
        ("transactions", "find-hanging"),
        ("transactions", "describe-producers", "--partition", "0"),
        ("transactions", "abort", "--partition", "0", "--start-offset", "0"),
        ("consume",),
    ],
)
def test_an_unknown_topic_is_told_with_a_remedy(words: tuple[str, ...], broker_address: str) -> None:
    done = run(*words, "--bootstrap-server", broker_address, "--topic", "nowhere", check=1)
    assert done.stdout == b""
    said = [line for line in done.stderr.decode().splitlines() if not line.startswith("Processed")]
    assert said == [
        "kafkalog: topic nowhere does not exist; `kafkalog topics describe` lists the topics and their partitions"
    ]
