"""Tests of `kafkalog perf`: it transfers the records, and prints results as Kafka's tools do. Speed is not tested."""

from __future__ import annotations

import re
import uuid
from pathlib import Path

import pytest

from tests.support.command import lines, run

NUMBER = r"\d+\.\d+"
TOTAL = re.compile(
    rf"(\d+) records sent, {NUMBER} records/sec \({NUMBER} MB/sec\), {NUMBER} ms avg latency, {NUMBER} ms max latency, "
    r"\d+ ms 50th, \d+ ms 95th, \d+ ms 99th, \d+ ms 99\.9th\."
)
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}"


@pytest.fixture
def topic(broker_address: str) -> str:
    name = f"perf-{uuid.uuid4().hex[:12]}"
    run("topics", "create", "--bootstrap-server", broker_address, "--topic", name, "--partitions", "2")
    return name


def produce(broker_address: str, topic: str, *words: str) -> list[str]:
    return list(lines(run("perf", "produce", "--bootstrap-server", broker_address, "--topic", topic, *words)))


def values(broker_address: str, topic: str, count: int) -> list[str]:
    return list(
        lines(run("consume", "--bootstrap-server", broker_address, "--topic", topic, "--from-beginning",
                  "--max-messages", str(count)))
    )  # fmt: skip


def test_produce_and_consume(broker_address: str, topic: str) -> None:
    (line,) = produce(broker_address, topic, "--num-records", "20000", "--record-size", "50", "--throughput", "-1")
    found = TOTAL.fullmatch(line)
    assert found is not None
    assert found[1] == "20000"
    assert all(re.fullmatch("[A-Z]{50}", value) for value in values(broker_address, topic, 20000))

    header, line = lines(
        run("perf", "consume", "--bootstrap-server", broker_address, "--topic", topic, "--messages", "20000")
    )
    assert header.startswith("start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec")
    assert re.fullmatch(rf"{TIME}, {TIME}, 0\.9537, {NUMBER}, 20000, {NUMBER}, 0, \d+, {NUMBER}, {NUMBER}", line)
    assert len(line.split(", ")) == len(header.split(", "))


def test_fewer_records_than_asked_for(broker_address: str, topic: str) -> None:
    produce(broker_address, topic, "--num-records", "10", "--payload-monotonic", "--throughput", "-1")
    done = run("perf", "consume", "--bootstrap-server", broker_address, "--topic", topic, "--messages", "11",
               "--timeout", "3000", "--hide-header", check=1)  # fmt: skip
    (line,) = lines(done)
    assert line.split(", ")[4] == "10"
    assert b"WARNING" in done.stderr


def test_a_throughput_without_limit(broker_address: str, topic: str) -> None:
    words = ("--num-records", "10", "--payload-monotonic", "--throughput", "Infinity")
    (line,) = produce(broker_address, topic, *words)
    assert line.startswith("10 records sent")


def test_throughput_and_numbers(broker_address: str, topic: str) -> None:
    (line,) = produce(broker_address, topic, "--num-records", "300", "--payload-monotonic", "--throughput", "2000")
    found = re.match(rf"300 records sent, ({NUMBER}) records/sec", line)
    assert found is not None
    assert float(found[1]) < 2100
    assert sorted(values(broker_address, topic, 300), key=int) == [str(n) for n in range(300)]


def test_payload_file(broker_address: str, topic: str, tmp_path: Path) -> None:
    file = tmp_path / "payloads"
    file.write_text("a;bb;ccc;")
    produce(
        broker_address, topic, "--num-records", "100", "--payload-file", str(file), "--payload-delimiter", ";",
        "--throughput", "-1", "--producer-props", "acks=1", "compression.type=gzip",
    )  # fmt: skip
    assert set(values(broker_address, topic, 100)) == {"a", "bb", "ccc"}


def test_records_that_are_refused(broker_address: str) -> None:
    name = f"perf-{uuid.uuid4().hex[:12]}"
    run("topics", "create", "--bootstrap-server", broker_address, "--topic", name, "--config", "max.message.bytes=500")
    done = run("perf", "produce", "--bootstrap-server", broker_address, "--topic", name, "--num-records", "5",
               "--record-size", "1000", "--throughput", "-1", check=1)  # fmt: skip
    assert b"5 records were not delivered" in done.stderr
    assert lines(done)[-1].startswith("0 records sent")


def test_wrong_usage(broker_address: str, topic: str, tmp_path: Path) -> None:
    base = ["perf", "produce", "--topic", topic, "--num-records", "1", "--throughput", "-1"]
    assert b"one of the arguments" in run(*base, check=2).stderr
    assert b"bootstrap.servers" in run(*base, "--record-size", "1", check=2).stderr
    empty = tmp_path / "empty"
    empty.touch()
    given = [*base, "--bootstrap-server", broker_address]
    assert b"is empty" in run(*given, "--payload-file", str(empty), check=2).stderr
    assert b"No such file" in run(*given, "--payload-file", str(tmp_path / "missing"), check=2).stderr


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("action", ["produce", "consume"])
def test_help(action: str) -> None:
    assert f"kafkalog perf {action} --bootstrap-server" in run("perf", action, "--help").stdout.decode()
