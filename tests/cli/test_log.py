"""`kafkalog log dump` against files of a real broker."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tests.cli.command import lines, run
from tests.support.kafkalog_broker import KafkalogBroker


@pytest.fixture
def segment(start_broker: Callable[..., KafkalogBroker]) -> Path:
    broker = start_broker({"num.partitions": "1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 50, "enable.idempotence": True})
    for n in range(3):
        producer.produce("words", f"value-{n}".encode(), f"key-{n}".encode(), headers=[("h", b"1")])
    assert producer.flush(30) == 0
    assert broker.stop() == 0
    return broker.log_dir / "words-0" / "00000000000000000000.log"


def test_batches(segment: Path) -> None:
    printed = lines(run("log", "dump", str(segment)))
    assert printed[:2] == [f"Dumping {segment}", "Log starting offset: 0"]
    assert printed[2].startswith("baseOffset: 0 lastOffset: ")
    assert "value-0" not in "".join(printed)


def test_records(segment: Path) -> None:
    printed = lines(run("log", "dump", "--print-data-log", "--files", str(segment)))
    records = [line for line in printed if line.startswith("| offset: ")]
    assert [line.partition(" key: ")[2] for line in records] == [f"key-{n} payload: value-{n}" for n in range(3)]
    assert all("headerKeys: [h]" in line for line in records)


def test_indexes_and_checkpoints(segment: Path) -> None:
    index = segment.with_suffix(".index")
    checkpoint = segment.parent / "leader-epoch-checkpoint"
    printed = lines(run("log", "dump", str(index), str(checkpoint)))
    assert f"Dumping {index}" in printed
    assert printed[-1].startswith("epoch: ")


def test_damage_is_reported(segment: Path) -> None:
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    assert "isvalid: false" in lines(run("log", "dump", str(segment)))[2]


def test_a_missing_file(tmp_path: Path) -> None:
    missing = tmp_path / "00000000000000000000.log"
    done = run("log", "dump", str(missing), check=1)
    assert f"{missing}: No such file or directory" in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_usage() -> None:
    assert b"name a FILE to dump" in run("log", "dump", check=2).stderr
    assert b"examples:" in run("log", "dump", "--help").stdout
