"""Tests of `kafkalog log` with files of a real broker."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from tests.support.command import lines, run, start
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
    assert "isvalid: false" in lines(run("log", "dump", str(segment), check=1))[2]


@pytest.mark.usefixtures("processes")
def test_a_missing_file(tmp_path: Path) -> None:
    missing = tmp_path / "00000000000000000000.log"
    done = run("log", "dump", str(missing), check=1)
    assert f"{missing}: No such file or directory" in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_a_directory_and_a_tree(segment: Path) -> None:
    partition, top = segment.parent, segment.parent.parent
    printed = lines(run("log", "dump", str(partition)))
    assert {f"Dumping {segment}", f"Dumping {partition / 'leader-epoch-checkpoint'}"} <= set(printed)
    assert f"Dumping {top / 'recovery-point-offset-checkpoint'}" in lines(run("log", "dump", str(top)))


def test_json(segment: Path) -> None:
    rows = json_lines(run("log", "dump", "--json", "--print-data-log", str(segment.parent.parent)))
    batches = [row for row in rows if row["type"] == "batch"]
    records = [record for row in batches for record in row["records"]]
    assert [(record["key"], record["value"]) for record in records] == [(f"key-{n}", f"value-{n}") for n in range(3)]
    assert records[0]["headers"] == [{"key": "h", "value": "1"}]
    assert {row["type"] for row in rows} >= {"batch", "checkpoint", "partition_metadata", "meta_properties", "producer"}


def test_verify_and_repair(segment: Path) -> None:
    top = str(segment.parent.parent)
    assert "nothing wrong" in lines(run("log", "verify", top))[-1]
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-3])
    # It is compared with a sound log only.
    snapshot = segment.with_suffix(".snapshot")
    snapshot.write_bytes(b"damaged")
    damaged = run("log", "verify", top, check=1)
    assert f"error: {segment}, position " in damaged.stdout.decode()
    assert "remedy: `kafkalog log repair` cuts it off" in damaged.stdout.decode()
    findings = json_lines(run("log", "verify", "--json", "--crc-only", top, check=1))
    assert {row["type"] for row in findings} == {"finding", "partition", "summary"}
    assert findings[-1]["errors"] >= 1

    plan = lines(run("log", "repair", "--dry-run", top))
    assert plan[0].startswith(f"would cut {segment} at position ")
    assert segment.read_bytes() == whole[:-3]
    assert lines(run("log", "repair", top))[-1] == "nothing is wrong now"
    (backup, second) = sorted(segment.parent.glob(".repair-*"))
    assert (second / snapshot.name).read_bytes() == b"damaged"
    (cut,) = backup.glob(f"{segment.name}.from-*")
    assert segment.read_bytes() + cut.read_bytes() == whole[:-3]
    assert lines(run("log", "repair", top)) == ["nothing is wrong now"]


def test_damage_in_the_middle_is_the_users_to_judge(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"num.partitions": "1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 1})
    for n in range(4):
        producer.produce("words", f"value-{n}".encode())
    assert producer.flush(30) == 0
    refused = run("log", "repair", str(broker.log_dir), check=1)
    assert b"in use by a running broker" in refused.stderr
    broker.kill()
    segment = broker.log_dir / "words-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    left = run("log", "repair", str(broker.log_dir), check=1)
    assert b"--skip loses the damaged batches only" in left.stdout
    assert segment.read_bytes() == data
    run("log", "repair", "--skip", str(broker.log_dir))
    broker.start()
    printed = lines(run("log", "tail", "--property", "print.offset=true", str(segment.parent)))
    assert printed == [f"Offset:{n}\tvalue-{n}" for n in range(1, 4)]


def test_tail_follows_a_running_broker(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({"num.partitions": "1"})
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for n in range(12):
        producer.produce("words", f"value-{n}".encode())
    assert producer.flush(30) == 0
    tail = start("log", "tail", "-n", "2", "-f", str(broker.log_dir / "words-0"))
    assert tail.stdout is not None
    try:
        assert [tail.stdout.readline() for _ in range(2)] == [b"value-10\n", b"value-11\n"]
        producer.produce("words", b"late")
        assert producer.flush(30) == 0
        assert tail.stdout.readline() == b"late\n"
        tail.send_signal(signal.SIGINT)
        assert tail.wait(30) == 130
        assert tail.stderr is not None
        assert tail.stderr.read() == b""
    finally:
        tail.kill()
        tail.communicate()


def test_a_reader_that_has_seen_enough(segment: Path) -> None:
    dump = start("log", "dump", "--print-data-log", *[str(segment)] * 3000)
    assert dump.stdout is not None
    assert dump.stderr is not None
    dump.stdout.readline()
    dump.stdout.close()
    assert dump.wait(60) == 1
    assert dump.stderr.read() == b""
    dump.communicate()


def test_stats(segment: Path) -> None:
    (row,) = json_lines(run("log", "stats", "--json", "--top-keys", "1", str(segment.parent)))
    assert (row["records"], row["next_offset"], row["producers"]) == (3, 3, 1)
    assert row["keys"]["bytes"] == 15
    assert row["top_keys"] == [{"key": "key-0", "records": 1}]
    printed = run("log", "stats", str(segment.parent)).stdout.decode()
    assert "records               3\n" in printed


def test_stats_of_a_log_whose_segment_goes_meanwhile(segment: Path) -> None:
    before = json_lines(run("log", "stats", "--json", "--segments", str(segment.parent)))
    (segment.parent / "00000000000000009999.log").symlink_to(segment.parent / "gone")
    assert json_lines(run("log", "stats", "--json", "--segments", str(segment.parent))) == before


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("action", ["verify", "repair", "tail", "stats"])
def test_where_there_is_no_log(tmp_path: Path, action: str) -> None:
    done = run("log", action, str(tmp_path / "nothing"), check=1)
    assert done.stderr.decode() == f"kafkalog: {tmp_path / 'nothing'}: No such file or directory\n"
    assert b"examples:" in run("log", action, "--help").stdout


def json_lines(done: subprocess.CompletedProcess[bytes]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines(done)]


@pytest.mark.usefixtures("processes")
def test_usage() -> None:
    assert b"name a FILE to dump" in run("log", "dump", check=2).stderr
    assert b"examples:" in run("log", "dump", "--help").stdout
