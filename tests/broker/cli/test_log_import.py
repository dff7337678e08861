"""Test that `kafkalog log import-0.7` imports directories of Kafka 0.7 into today's topics."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from broker.log.kafka_0_7 import OldLog
from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.simple_consumer import SimpleConsumer
from kafkalog.client.types import TopicPartition
from kafkalog.records.compression import Codec
from tests.support.command import run


@pytest.fixture
def topic(broker_address: str) -> str:
    name = f"old_{uuid.uuid4().hex[:12]}"
    run("topics", "create", "--bootstrap-server", broker_address, "--topic", name, "--partitions", "3")
    return name


def written(directory: Path, count: int) -> list[bytes]:
    log = OldLog.open(directory, writable=True, segment_bytes=2000)
    values = [b"%s %d" % (directory.name.encode(), at) for at in range(count)]
    for at in range(0, count, 7):
        log.append(values[at : at + 7], codec=(Codec.NONE, Codec.GZIP, Codec.SNAPPY)[at % 3])
    log.close()
    return values


def read(broker_address: str, topic: str, partition: int, count: int) -> list[bytes | None]:
    config = ClientConfig.from_dict({"bootstrap.servers": broker_address, "auto.offset.reset": "earliest"})
    found: list[bytes | None] = []
    with SimpleConsumer(config) as consumer:
        consumer.assign([TopicPartition(topic, partition)])
        while len(found) < count:
            found += [record.value for record in consumer.poll(10.0)]
    return found


def test_a_directory_of_partitions(tmp_path: Path, broker_address: str, topic: str) -> None:
    wanted = {n: written(tmp_path / f"{topic}{'-' if n else '_'}{n}", 300 * n) for n in (0, 1, 2)}
    done = run("log", "import-0.7", str(tmp_path), "--bootstrap-server", broker_address)
    for partition in (1, 2):
        assert read(broker_address, topic, partition, 300 * partition) == wanted[partition]
        assert f"{300 * partition} messages of bytes [0, " in done.stdout.decode()
        assert f"are offsets [0, {300 * partition}) of {topic}-{partition}\n" in done.stdout.decode()
    assert f"so none for {topic}-0\n" in done.stdout.decode()


def test_going_on_where_one_stopped(tmp_path: Path, broker_address: str, topic: str) -> None:
    values = written(tmp_path / "any-7", 100)
    messages = list(OldLog.open(tmp_path / "any-7").messages())
    at = next(n for n, message in enumerate(messages) if message.offset != messages[0].offset and n >= 40)
    words = ("--bootstrap-server", broker_address, "--topic", topic, "--partition", "2")
    run("log", "import-0.7", str(tmp_path / "any-7"), *words, "--from-offset", str(messages[at].offset))
    first = next(n for n, message in enumerate(messages) if message.offset == messages[at].offset)
    assert read(broker_address, topic, 2, 100 - first) == values[first:]


def test_damage_is_told_with_where_to_go_on(tmp_path: Path, broker_address: str, topic: str) -> None:
    written(tmp_path / f"{topic}-0", 300)
    log = OldLog.open(tmp_path / f"{topic}-0")
    segments, whole = log.segments, list(log.messages())
    data = bytearray(segments[1].path.read_bytes())
    data[12] ^= 1
    segments[1].path.write_bytes(data)
    done = run("log", "import-0.7", str(tmp_path), "--bootstrap-server", broker_address, check=1)
    assert f"{segments[1].path} is damaged at position 0" in done.stderr.decode()
    assert f"go on with --from-offset {segments[1].base}" in done.stderr.decode()
    count = sum(1 for message in whole if message.offset < segments[1].base)
    assert f"with {count} messages written" in done.stderr.decode()
    assert len(read(broker_address, topic, 0, count)) == count


def test_wrong_words(tmp_path: Path, broker_address: str) -> None:
    address = ("--bootstrap-server", broker_address)
    done = run("log", "import-0.7", str(tmp_path), *address, check=2)
    assert "holds no .kafka files" in done.stderr.decode()
    for name in ("a-0", "b-0"):
        written(tmp_path / name, 3)
    assert run("log", "import-0.7", str(tmp_path), *address, "--partition", "1", check=2).stderr
    (tmp_path / "a-0").rename(tmp_path / "plain")
    done = run("log", "import-0.7", str(tmp_path / "plain"), *address, check=2)
    assert "set --topic and --partition" in done.stderr.decode()
    run("log", "import-0.7", str(tmp_path / "missing"), *address, check=1)


@pytest.mark.usefixtures("processes")
def test_dump(tmp_path: Path) -> None:
    written(tmp_path / "t-0", 8)
    path = OldLog.open(tmp_path / "t-0").segments[0].path
    lines = run("log", "dump", "--print-data-log", str(path)).stdout.decode().splitlines()
    assert lines[0] == "Starting offset: 0"
    assert lines[-1].endswith("payload: t-0 7")
    assert sum("isvalid: true" in line for line in lines) == 8
    path.write_bytes(path.read_bytes()[:-1])
    assert "invalid bytes at the end" in run("log", "dump", str(path), check=1).stdout.decode()
