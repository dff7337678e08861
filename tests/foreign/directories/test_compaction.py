"""Tests of compacted topics with foreign clients and tools.

librdkafka writes and reads, Kafka's dump tool checks the files, and Spark's reader meets the gaps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from broker.log.directories.checkpoints import read_offsets
from peers import require
from peers.brokers import kafka
from tests.spark_kafkalog.without_spark import Batch
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

EAGER = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(4 << 20),
    "log.segment.delete.delay.ms": "100",
}
COMPACTED = {
    "cleanup.policy": "compact", "segment.bytes": "4096", "min.cleanable.dirty.ratio": "0.01",
    "index.interval.bytes": "1024",
}  # fmt: skip
DUMP = {"4": "org.apache.kafka.tools.DumpLogSegments", "3": "kafka.tools.DumpLogSegments"}
KEYS = 50


@pytest.fixture(scope="module")
def broker(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkalogBroker]:
    with KafkalogBroker(tmp_path_factory.mktemp("compacting"), EAGER) as running:
        yield running


def create(broker: KafkalogBroker, name: str, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1, config=config)])[name].result(30)


def fill(broker: KafkalogBroker, topic: str, **config: Any) -> dict[bytes, bytes | None]:
    """Write many values of few keys, and a tombstone of each seventh; what each key's latest value is then."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "linger.ms": 2, "batch.num.messages": 10, **config})
    latest: dict[bytes, bytes | None] = {}
    for number in range(3000):
        key = b"key-%d" % (number * number % KEYS)
        value = None if number % 700 == 699 else b"%d " % number + b"v" * 80
        latest[key] = value
        producer.produce(topic, value, key)
        producer.poll(0)
    assert producer.flush(60) == 0
    return latest


def consume(broker: KafkalogBroker, topic: str, **config: Any) -> list[tuple[int, bytes, bytes | None]]:
    """Offset, key and value of all records, from the beginning to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap, "group.id": "-", "auto.offset.reset": "earliest",
            "enable.auto.commit": False, "enable.partition.eof": True, **config,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[tuple[int, bytes, bytes | None]] = []
    try:
        while True:
            message = consumer.poll(30)
            assert message is not None, "the end did not come"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return found
            offset, key = message.offset(), message.key()
            assert offset is not None
            assert key is not None
            found.append((offset, key, message.value()))
    finally:
        consumer.close()


def cleaned_up_to(broker: KafkalogBroker, topic: str) -> int:
    return read_offsets(str(broker.log_dir / "cleaner-offset-checkpoint")).get((topic, 0), -1)


def wait_compacted(broker: KafkalogBroker, topic: str) -> None:
    """Until all but the active segment is clean."""
    partition = broker.log_dir / f"{topic}-0"

    def done() -> bool:
        active = max(int(path.stem) for path in partition.glob("*.log"))
        return active > 0 and cleaned_up_to(broker, topic) == active

    wait_until(done, f"{topic} is compacted: {broker.logged()[-2000:]}")


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_compacted_topic_has_the_latest_value_of_each_key(broker: KafkalogBroker, codec: str) -> None:
    topic = f"latest-{codec}"
    create(broker, topic, COMPACTED)
    latest = fill(broker, topic, **{"compression.type": codec, "enable.idempotence": codec == "none"})
    wait_compacted(broker, topic)
    found = consume(broker, topic)
    assert {key: value for _, key, value in found} == latest
    assert [offset for offset, _, _ in found] == sorted({offset for offset, _, _ in found})
    # All but what the active segment holds is there once.
    active = cleaned_up_to(broker, topic)
    old = [key for offset, key, _ in found if offset < active]
    assert len(old) == len(set(old))
    assert len(found) < 1000


def test_spark_reads_over_the_gaps_and_reports_no_loss(broker: KafkalogBroker) -> None:
    topic = "gaps"
    create(broker, topic, COMPACTED)
    latest = fill(broker, topic)
    wait_compacted(broker, topic)
    batch = Batch(broker.bootstrap)
    rows = batch.rows(subscribe=topic, failOnDataLoss=True)
    assert {row["key"]: row["value"] for row in rows} == latest
    offsets = [row["offset"] for row in rows]
    assert offsets == [offset for offset, _, _ in consume(broker, topic)]
    # Ranges that begin, end and lie within gaps.
    for begin, end in ((0, 1), (5, 900), (offsets[0] + 1, offsets[3]), (1, 3000)):
        ranged = batch.rows(
            subscribe=topic, failOnDataLoss=True, startingOffsets=f'{{"{topic}":{{"0":{begin}}}}}',
            endingOffsets=f'{{"{topic}":{{"0":{end}}}}}',
        )  # fmt: skip
        assert [row["offset"] for row in ranged] == [offset for offset in offsets if begin <= offset < end]


def test_records_without_a_key_are_refused(broker: KafkalogBroker) -> None:
    create(broker, "keyless", COMPACTED)
    refused: list[KafkaError | None] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("keyless", b"v", on_delivery=lambda error, _: refused.append(error))
    producer.flush(30)
    assert refused[0] is not None
    assert refused[0].code() == KafkaError.INVALID_RECORD


def test_a_compacted_topic_survives_a_kill(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker(EAGER)
    create(broker, "killed", COMPACTED)
    latest = fill(broker, "killed")
    wait_until(lambda: cleaned_up_to(broker, "killed") > 0, "a first cleaning")
    broker.kill()
    broker.start()
    wait_compacted(broker, "killed")
    assert {key: value for _, key, value in consume(broker, "killed")} == latest
    assert broker.stop() == 0
    broker.start()
    assert {key: value for _, key, value in consume(broker, "killed")} == latest


def test_compacted_and_deleted(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker(EAGER)
    create(broker, "both", {**COMPACTED, "cleanup.policy": "compact,delete", "retention.ms": "-1"})
    latest = fill(broker, "both")
    wait_compacted(broker, "both")
    assert {key: value for _, key, value in consume(broker, "both")} == latest
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    resource = ConfigResource(
        ConfigResource.Type.TOPIC, "both",
        incremental_configs=[ConfigEntry("retention.bytes", "0", incremental_operation=AlterConfigOpType.SET)],
    )  # fmt: skip
    admin.incremental_alter_configs([resource])[resource].result(30)
    wait_until(lambda: len(consume(broker, "both")) == 0, "retention has taken everything")


def test_a_log_that_cannot_be_cleaned_keeps_no_other_from_it(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker({**EAGER, "log.cleaner.backoff.ms": "86400000"})
    for topic in ("damaged", "sound"):
        create(broker, topic, COMPACTED)
        fill(broker, topic)
    assert broker.stop() == 0
    first = broker.log_dir / "damaged-0" / "00000000000000000000.log"
    data = bytearray(first.read_bytes())
    data[200] ^= 0xFF
    first.write_bytes(data)
    broker.overrides.update(EAGER)
    broker.start()
    wait_compacted(broker, "sound")
    broker.wait_logged("Cleaning of .*damaged-0 failed")
    assert broker.logged().count("damaged-0 failed") == 1
    assert first.read_bytes() == data


@pytest.mark.peer
@pytest.mark.parametrize("version", kafka.VERSIONS)
def test_dump_log_segments_finds_nothing_wrong(broker: KafkalogBroker, version: str) -> None:
    require(kafka.missing(version))
    topic = f"dumped-{version}"
    create(broker, topic, COMPACTED)
    fill(broker, topic, **{"enable.idempotence": True})
    wait_compacted(broker, topic)
    partition = broker.log_dir / f"{topic}-0"
    active = cleaned_up_to(broker, topic)
    logs = [path for path in sorted(partition.glob("*.log")) if int(path.stem) < active]
    dumped = dump(version, logs, "--deep-iteration", "--print-data-log")
    assert "isvalid: false" not in dumped
    # It does tell of offsets that do not follow one another: the log was compacted.
    assert not re.search(r"exception|mismatch", dumped, re.I)
    offsets = [int(offset) for offset in re.findall(r"^\| offset: (\d+)", dumped, re.M)]
    assert offsets == [offset for offset, _, _ in consume(broker, topic) if offset < active]
    indexes = [path.with_suffix(suffix) for path in logs for suffix in (".index", ".timeindex")]
    assert all(path.exists() for path in indexes)
    checked = dump(version, indexes, "--index-sanity-check")
    assert not re.search(r"mismatch|corrupt|fail|exception", checked, re.I)
    assert not re.search(r"mismatch|out of order|not found|exception", dump(version, indexes), re.I)


def dump(version: str, files: list[Path], *options: str) -> str:
    names = ",".join(str(file) for file in files)
    return kafka.run_java_tool(DUMP[version[0]], ["--files", names, *options], version)
