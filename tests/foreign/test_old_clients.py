"""Tests of clients older than Kafka 0.11, and of newer ones with old protocol versions.

Each client writes topics of every message format, and each reads what all of them wrote.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest

from peers import kcat, require
from peers.clients import old_java
from peers.clients.base import DEADLINE_S
from peers.clients.confluent import ConfluentClient
from peers.clients.registry import CLIENTS

pytestmark = pytest.mark.peer

RELEASES = ("0.9.0", "0.10.0", "2.8")
CODECS = ("none", "gzip", "snappy", "lz4")
COUNT = 20


class Seen(NamedTuple):
    """A record as any of these clients shows it: nothing of before 0.10 knows times."""

    offset: int
    key: bytes | None
    value: bytes


class Topic(NamedTuple):
    name: str
    codec: str


Writer = Callable[[str, Iterable[Topic], str], None]
Reader = Callable[[str, Iterable[Topic], int], dict[str, list[Seen]]]


def key_of(n: int) -> bytes | None:
    return None if n % 3 == 0 else b"k%d" % n


def value_of(prefix: str, n: int) -> bytes:
    return (prefix + str(n)).encode() * 10


# ------------------------------------------------------------------------------------------------ Java

JAVA = {f"java-{version.rpartition('.')[0]}": version for version in old_java.VERSIONS}


def java_writer(version: str) -> Writer:
    def write(bootstrap: str, topics: Iterable[Topic], prefix: str) -> None:
        old_java.run(version, bootstrap, "produce", [f"{t.name} {t.codec} {COUNT} {prefix}" for t in topics])

    return write


def java_reader(version: str) -> Reader:
    def read(bootstrap: str, topics: Iterable[Topic], count: int) -> dict[str, list[Seen]]:
        found: dict[str, list[Seen]] = {}
        out = old_java.run(version, bootstrap, "consume", [f"{topic.name} {count}" for topic in topics])
        for line in out.splitlines():
            topic, offset, key, value = line.split(" ")
            seen = Seen(int(offset), None if key == "-" else key.encode(), value.encode())
            found.setdefault(topic, []).append(seen)
        return found

    return read


# ------------------------------------------------------------------------------------------------ kafka-python

PYTHON = {f"kafka-python-{'.'.join(map(str, v))}": v for v in ((0, 8, 2), (0, 9), (0, 10, 0), (0, 10, 1))}


def python_writer(version: tuple[int, ...]) -> Writer:
    def write(bootstrap: str, topics: Iterable[Topic], prefix: str) -> None:
        import kafka

        for topic in topics:
            producer = kafka.KafkaProducer(
                bootstrap_servers=bootstrap, api_version=version, linger_ms=100, enable_idempotence=False,
                compression_type=None if topic.codec == "none" else topic.codec,
            )  # fmt: skip
            sent = [producer.send(topic.name, value_of(prefix, n), key=key_of(n), partition=0) for n in range(COUNT)]
            for each in sent:
                each.get(DEADLINE_S)
            producer.close()

    return write


def python_reader(version: tuple[int, ...]) -> Reader:
    def read(bootstrap: str, topics: Iterable[Topic], count: int) -> dict[str, list[Seen]]:
        import kafka

        found: dict[str, list[Seen]] = {}
        for topic in topics:
            consumer = kafka.KafkaConsumer(
                bootstrap_servers=bootstrap, api_version=version, group_id=None, enable_auto_commit=False,
                max_partition_fetch_bytes=4000,
            )  # fmt: skip
            partition = kafka.TopicPartition(topic.name, 0)
            consumer.assign([partition])
            consumer.seek(partition, 0)
            records = found[topic.name] = []
            deadline = time.monotonic() + DEADLINE_S
            while len(records) < count and time.monotonic() < deadline:
                got = consumer.poll(1000).get(partition, ())
                records += [Seen(record.offset, record.key, record.value) for record in got]
            consumer.close()
        return found

    return read


# ------------------------------------------------------------------------------------------------ librdkafka

RDKAFKA = {f"librdkafka-{v}": v for v in ("0.8.2", "0.9.0", "0.10.0")}
KCAT = {f"kcat-{v}": v for v in ("0.8.2", "0.9.0", "0.10.0")}


def as_of(version: str) -> dict[str, str]:
    return {"api.version.request": "false", "broker.version.fallback": version}


def rdkafka_writer(version: str) -> Writer:
    def write(bootstrap: str, topics: Iterable[Topic], prefix: str) -> None:
        import confluent_kafka

        failed: list[Any] = []
        for topic in topics:
            producer = confluent_kafka.Producer(
                {"bootstrap.servers": bootstrap, "linger.ms": 100, "compression.type": topic.codec, **as_of(version)}
            )
            for n in range(COUNT):
                producer.produce(
                    topic.name, value_of(prefix, n), key_of(n), partition=0,
                    on_delivery=lambda error, _: failed.append(error) if error else None,
                )  # fmt: skip
            assert producer.flush(DEADLINE_S) == 0
            assert not failed

    return write


def rdkafka_reader(version: str) -> Reader:
    def read(bootstrap: str, topics: Iterable[Topic], count: int) -> dict[str, list[Seen]]:
        import confluent_kafka

        found: dict[str, list[Seen]] = {}
        settings = {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
        consumer = confluent_kafka.Consumer({**settings, "fetch.message.max.bytes": 4000, **as_of(version)})
        for topic in topics:
            consumer.assign([confluent_kafka.TopicPartition(topic.name, 0, 0)])
            records = found[topic.name] = []
            deadline = time.monotonic() + DEADLINE_S
            while len(records) < count and time.monotonic() < deadline:
                message = consumer.poll(1.0)
                if message is not None:
                    assert message.error() is None, message.error()
                    offset, value = message.offset(), message.value()
                    assert offset is not None
                    assert value is not None
                    records.append(Seen(offset, message.key(), value))
        consumer.close()
        return found

    return read


def kcat_settings(version: str) -> list[str]:
    return [word for item in as_of(version).items() for word in ("-X", "=".join(item))]


def kcat_writer(version: str) -> Writer:
    def write(bootstrap: str, topics: Iterable[Topic], prefix: str) -> None:
        for topic in topics:
            lines = [(key_of(n) or b"") + b"\x1f" + value_of(prefix, n) for n in range(COUNT)]
            words = ["-P", "-t", topic.name, "-p", "0", "-Z", "-K", "\x1f", *kcat_settings(version)]
            words += ["-X", f"compression.codec={topic.codec}", "-X", "linger.ms=100"]
            kcat.run_kcat(bootstrap, words, stdin=b"\n".join(lines) + b"\n")

    return write


def kcat_reader(version: str) -> Reader:
    def read(bootstrap: str, topics: Iterable[Topic], count: int) -> dict[str, list[Seen]]:
        found = {}
        for topic in topics:
            words = [
                "-C",
                "-q",
                "-J",
                "-t",
                topic.name,
                "-p",
                "0",
                "-o",
                "0",
                "-c",
                str(count),
                *kcat_settings(version),
            ]
            rows = [json.loads(line) for line in kcat.run_kcat(bootstrap, words).splitlines()]
            found[topic.name] = [
                Seen(row["offset"], None if row["key"] is None else row["key"].encode(), row["payload"].encode())
                for row in rows
            ]
        return found

    return read


# ------------------------------------------------------------------------------------------------ all of them

WRITERS: dict[str, Writer] = (
    {name: java_writer(version) for name, version in JAVA.items()}
    | {name: python_writer(version) for name, version in PYTHON.items()}
    | {name: rdkafka_writer(version) for name, version in RDKAFKA.items()}
    | {name: kcat_writer(version) for name, version in KCAT.items()}
)


def modern_reader(name: str) -> Reader:
    """A client of today, which gets what is stored as it is."""

    def read(bootstrap: str, topics: Iterable[Topic], count: int) -> dict[str, list[Seen]]:
        require(CLIENTS[name].missing())
        client = CLIENTS[name](bootstrap)
        found = {
            topic.name: [
                Seen(each.offset, each.key, each.value or b"") for each in client.consume(topic.name, 0, 0, count)
            ]
            for topic in topics
        }
        client.close()
        return found

    return read


READERS: dict[str, Reader] = (
    {name: java_reader(version) for name, version in JAVA.items()}
    | {name: python_reader(version) for name, version in PYTHON.items()}
    | {name: rdkafka_reader(version) for name, version in RDKAFKA.items()}
    | {name: kcat_reader(version) for name, version in KCAT.items()}
    | {f"{name}-of-today": modern_reader(name) for name in ("java-4",)}
)


def carries(name: str, codec: str) -> bool:
    """The lz4 frames of v0 (KAFKA-3160) are read by these alone; kafka-python wants a package for it."""
    return codec != "lz4" or name.startswith(("java", "librdkafka", "kcat"))


@pytest.fixture(scope="module")
def filled(bootstrap: str) -> dict[str, tuple[Topic, list[Seen]]]:
    """Topics of every format and codec, what every client wrote to each, in turn."""
    require(kcat.missing())
    for version in old_java.VERSIONS:
        require(old_java.missing(version))
    admin = ConfluentClient(bootstrap)
    filled: dict[str, tuple[Topic, list[Seen]]] = {}
    for release in RELEASES:
        for codec in CODECS:
            topic = Topic(f"old-{release}-{codec}", codec)
            admin.create_topic(topic.name, 1, {"message.format.version": release})
            filled[topic.name] = topic, []
    admin.close()
    for name, write in WRITERS.items():
        prefix = f"{name}-"
        topics = [topic for topic, _ in filled.values() if carries(name, topic.codec)]
        write(bootstrap, topics, prefix)
        for topic in topics:
            wanted = filled[topic.name][1]
            first = len(wanted)
            wanted += [Seen(first + n, key_of(n), value_of(prefix, n)) for n in range(COUNT)]
    return filled


@pytest.mark.parametrize("name", READERS)
def test_everyone_reads_what_everyone_wrote(
    bootstrap: str, filled: dict[str, tuple[Topic, list[Seen]]], name: str
) -> None:
    some = {topic: wanted for topic, wanted in filled.values() if carries(name, topic.codec)}
    by_count: dict[int, list[Topic]] = {}
    for topic, wanted in some.items():
        by_count.setdefault(len(wanted), []).append(topic)
    for count, topics in by_count.items():
        found = READERS[name](bootstrap, topics, count)
        for topic in topics:
            assert found[topic.name][:count] == some[topic], topic.name
