"""Test a broker process that is killed under real clients, with a power cut at any earlier moment.

The process records its file operations. The test makes many crash images from the record. It starts a broker on each,
and compares the result with what the clients had sent and what was acknowledged by then.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from kafkalog.records.batch import decode_batch, iter_headers
from tests.crash.host import Host
from tests.crash.lossy_disk import Disk, NoSync, read_record
from tests.crash.recorded_broker import RecordedBroker
from tests.crash.support import create_topic, read_all
from tests.support.amount import mostly_exhaustive
from tests.support.kafkalog_broker import KafkalogBroker

PARTITIONS = 3
DEADLINE_S = 120.0
FLUSHED = {"every": "1", "some": "20", "never": str(1 << 62)}
"""Topics by their flush.messages; of the first every acknowledged record is on the device."""
SETTINGS = {
    "log.segment.bytes": "16384",
    "log.index.size.max.bytes": "4096",
    "log.index.interval.bytes": "1000",
    "log.flush.offset.checkpoint.interval.ms": "100",
}


class Acknowledged(NamedTuple):
    topic: str
    partition: int
    offset: int
    value: bytes
    recorded: int
    """Bytes of the record when the acknowledgement came."""


def run_clients(broker: RecordedBroker, chance: random.Random, count: int) -> list[Acknowledged]:
    """Produce to every partition of every topic until `count` records are acknowledged, then kill the broker."""
    acked: list[Acknowledged] = []

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            size = broker.record.stat().st_size
            acked.append(Acknowledged(message.topic(), message.partition(), message.offset(), message.value(), size))

    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "enable.idempotence": True,
            "linger.ms": 1,
            "batch.size": 4000,
            "max.in.flight.requests.per.connection": 5,
        }
    )
    numbers = dict.fromkeys(((topic, index) for topic in FLUSHED for index in range(PARTITIONS)), 0)
    end = time.monotonic() + DEADLINE_S
    while len(acked) < count:
        assert time.monotonic() < end, "the broker stopped acknowledging"
        for _ in range(chance.randrange(1, 20) if len(producer) < 300 else 0):
            topic, index = chance.choice(list(numbers))
            value = b"%d:" % numbers[topic, index] + b"." * chance.randrange(300)
            producer.produce(topic, value, partition=index, on_delivery=delivered)
            numbers[topic, index] += 1
        producer.poll(0.002)
    broker.kill()
    producer.purge()
    producer.flush(10)
    return acked


def values_of(host: Host, topic: str, index: int) -> dict[int, bytes]:
    partition = host.server.replicas.get(topic, index)
    assert partition is not None, f"{topic}-{index} is lost"
    log = partition.log
    found: dict[int, bytes] = {}
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        for position, header in iter_headers(memoryview(data)):
            _, records = decode_batch(data, position)
            found.update((record.offset, record.value or b"") for record in records)
            offset = header.last_offset + 1
    return found


def check(found: dict[int, bytes], topic: str, index: int, acked: list[Acknowledged], recorded: int) -> None:
    """Each record once, in the order in which it was sent, and those whose acknowledgement vouches for them."""
    assert list(found) == list(range(len(found))), "offsets are dense"
    assert [int(value.partition(b":")[0]) for value in found.values()] == list(range(len(found))), "sent order"
    for row in acked:
        if (row.topic, row.partition) == (topic, index):
            if FLUSHED[topic] == "1" and row.recorded <= recorded:
                assert found.get(row.offset) == row.value, f"{topic}-{index}: record {row.offset} is lost"
            assert found.get(row.offset, row.value) == row.value


@pytest.fixture
def recorded(processes: None, tmp_path: Path) -> Iterator[RecordedBroker]:
    with RecordedBroker(tmp_path / "recorded", SETTINGS) as broker:
        yield broker


def cuts(recorded: RecordedBroker, chance: random.Random, count: int, place: Path) -> Iterator[tuple[Path, int, str]]:
    """`(image, bytes recorded before the cut, how to make it again)`, of which the last is the kill itself."""
    entries = list(read_record(recorded.record))
    disk = Disk(str(recorded.directory))
    done = 0
    first = next(number for number, (_, entry) in enumerate(entries) if "never-2" in str(entry[1]))
    for at in [*sorted(chance.randint(first + 20, len(entries)) for _ in range(count - 1)), len(entries)]:
        disk.play(entry for _, entry in entries[done:at])
        done = at
        seed = chance.getrandbits(32)
        image = place / f"cut-{at}-{seed}"
        disk.image(image, random.Random(seed).randrange)
        yield image, entries[at - 1][0], f"{recorded.record}: cut after {at} of {len(entries)} operations, seed {seed}"


@pytest.mark.parametrize("seed", mostly_exhaustive(range(1, 4), 1))
def test_a_killed_process_and_a_power_cut_before(recorded: RecordedBroker, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for topic, messages in FLUSHED.items():
        create_topic(recorded, topic, PARTITIONS, **{"flush.messages": messages})
    acked = run_clients(recorded, chance, 2000)
    place = tmp_path / "images"
    place.mkdir()
    images = list(cuts(recorded, chance, 25, place))
    loop = asyncio.new_event_loop()
    try:
        for image, size, how in images:
            print(how)
            copy = tmp_path / "judged"
            shutil.copytree(image, copy)
            host = Host(loop, copy, {"directories": "log", **SETTINGS}, NoSync())
            try:
                assert not host.server.logs.offline_dirs
                for topic in FLUSHED:
                    for index in range(PARTITIONS):
                        check(values_of(host, topic, index), topic, index, acked, size)
            finally:
                host.kill()
            shutil.rmtree(copy)
    finally:
        loop.close()
    # The whole way, too: a broker process on what is left, and a client that reads it.
    image, size, how = images[-1]
    print(how)
    with KafkalogBroker(image, SETTINGS) as broker:
        for index in range(PARTITIONS):
            check(read_all(broker, "every", index), "every", index, acked, size)
