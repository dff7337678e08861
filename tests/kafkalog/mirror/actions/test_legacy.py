"""Test `kafkalog mirror legacy` as a user of MirrorMaker 1 starts it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from kafkalog.client.consumer import Consumer
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.records.batch import iter_headers
from kafkalog.records.compression import Codec
from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, all_contents, committed, read_all
from tests.kafkalog.mirror.writing import make, write
from tests.support.command import call, ended_by_sigterm, start
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until


def files(tmp_path: Path, source: str, target: str, group: str) -> list[str]:
    consumer, producer = tmp_path / "consumer.properties", tmp_path / "producer.properties"
    consumer.write_text(f"bootstrap.servers={source}\ngroup.id={group}\nauto.offset.reset=earliest\n")
    producer.write_text(f"bootstrap.servers={target}\n")
    return ["mirror", "legacy", "--consumer.config", str(consumer), "--producer.config", str(producer)]


def test_records_come_under_the_same_name(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    topic = f"words-{alias}"
    for address in (clusters.source, clusters.target):
        make(address, topic, 2)
    write(clusters.source, topic, range(50), None)
    words = files(tmp_path, clusters.source, clusters.target, alias)
    words += ["--whitelist", topic, "--num.streams", "2", "--offset.commit.interval.ms", "100"]
    words += ["--new.consumer", "--new.producer", "--num.producers", "2", "--queue.size", "1000"]
    mirror = start(*words)
    try:
        found = read_all(clusters.target, topic, 50)
        ends = {TopicPartition(topic, number): len(each) for number, each in found.items()}
        wait_until(lambda: committed(clusters.source, alias) == ends, "positions are committed")
    finally:
        mirror.terminate()
        _, errors = mirror.communicate()
    assert mirror.returncode == 0, errors.decode()
    for name in ("new.consumer", "new.producer", "num.producers", "queue.size"):
        assert f"--{name} has no effect" in errors.decode()
    # Both sides have as many partitions, and so keys are where they were.
    there = read_all(clusters.source, topic, 50)
    assert all_contents(found) == all_contents(there)


def test_each_file_of_a_consumer_is_a_source(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    topic = f"words-{alias}"
    make(clusters.source, topic, 2)
    write(clusters.source, topic, range(50), None)
    words = files(tmp_path, clusters.source, clusters.target, alias)
    other = tmp_path / "other.properties"
    other.write_text(f"bootstrap.servers={clusters.source}\ngroup.id={alias}-2\nauto.offset.reset=earliest\n")
    mirror = start(*words, "--consumer.config", str(other), "--num.streams", "2", f"--whitelist={topic}")
    try:
        # Both are the same cluster, and so each record comes from both.
        found = read_all(clusters.target, topic, 100)
    finally:
        mirror.terminate()
        mirror.communicate()
    values = sorted(record.value or b"" for records in found.values() for record in records)
    assert values == sorted([b"v%d" % number for number in range(50)] * 2)


def test_a_record_that_the_target_refuses_ends_the_mirror(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    topic = f"large-{alias}"
    make(clusters.source, topic)
    make(clusters.target, topic, max_message_bytes="10")
    write(clusters.source, topic, range(1))
    words = files(tmp_path, clusters.source, clusters.target, alias)
    mirror = start(*words, "--whitelist", topic, "--abort.on.send.failure", "true")
    _, errors = mirror.communicate(timeout=120)
    assert mirror.returncode == 1
    assert b"abort.on.send.failure" in errors
    assert committed(clusters.source, alias) == {}


def test_a_record_that_the_target_refuses_is_left_out(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    topic = f"large-{alias}"
    make(clusters.source, topic)
    make(clusters.target, topic, max_message_bytes="500")
    with Producer(clusters.client("source")) as producer:
        for value in (b"first", b"x" * 1000, b"last"):
            producer.send(topic, value)
    words = files(tmp_path, clusters.source, clusters.target, alias)
    mirror = start(*words, "--whitelist", topic, "--abort.on.send.failure=false", "--offset.commit.interval.ms=100")
    try:
        after = {TopicPartition(topic, 0): 3}
        wait_until(lambda: committed(clusters.source, alias) == after, "positions are committed")
    finally:
        mirror.terminate()
        _, errors = mirror.communicate()
    assert mirror.returncode == 0
    assert errors.decode().count("a record is left out") == 1
    assert [record.value for record in read_all(clusters.target, topic, 2)[0]] == [b"first", b"last"]


def test_only_compressed_topics_are_compressed(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    compressed, plain = f"compressed-{alias}", f"plain-{alias}"
    for topic in (compressed, plain):
        for address in clusters:
            make(address, topic)
        write(clusters.source, topic, range(3))
    words = files(tmp_path, clusters.source, clusters.target, alias)
    properties = f"metadata.broker.list={clusters.target}\ncompression.codec=gzip\ncompressed.topics={compressed}\n"
    (tmp_path / "producer.properties").write_text(properties)
    mirror = start(*words, "--whitelist", f"{compressed}|{plain}")
    try:
        for topic in (compressed, plain):
            read_all(clusters.target, topic, 3)
    finally:
        mirror.terminate()
        mirror.communicate()
    assert mirror.returncode == 0
    assert codecs(clusters.target, compressed) == {Codec.GZIP}
    assert codecs(clusters.target, plain) == {Codec.NONE}


def codecs(address: str, topic: str) -> set[Codec]:
    """Return the codecs of the first batches of a topic."""
    with Consumer({"bootstrap.servers": address, "auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        found = consumer.poll_fetched(30.0)
    assert found is not None
    return {header.codec for _, header in iter_headers(found.fetched.records)}


def test_a_send_that_raises_commits_nothing(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    """A producer with a transactional id raises from `send` here: no transaction is open."""
    topic = f"words-{alias}"
    for address in clusters:
        make(address, topic)
    write(clusters.source, topic, range(50))
    words = files(tmp_path, clusters.source, clusters.target, alias)
    with (tmp_path / "producer.properties").open("a") as file:
        file.write(f"transactional.id={alias}\n")
    mirror = start(*words, "--whitelist", topic)
    _, errors = mirror.communicate(timeout=120)
    assert mirror.returncode == 1, errors.decode()
    read_all(clusters.target, topic, 0)
    assert committed(clusters.source, alias) == {}


def test_keys_and_values_pass_as_bytes_whatever_the_files_name(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    topic = f"words-{alias}"
    for address in clusters:
        make(address, topic)
    no_text = b"\xff\xfe"
    with Producer(clusters.client("source")) as producer:
        producer.send(topic, no_text, key=no_text)
    words = files(tmp_path, clusters.source, clusters.target, alias)
    package = "org.apache.kafka.common.serialization"
    with (tmp_path / "consumer.properties").open("a") as file:
        file.write(f"key.deserializer={package}.ByteArrayDeserializer\n")
        file.write(f"value.deserializer={package}.StringDeserializer\n")
    with (tmp_path / "producer.properties").open("a") as file:
        file.write(f"key.serializer={package}.StringSerializer\nvalue.serializer={package}.ByteArraySerializer\n")
    mirror = start(*words, "--whitelist", topic, "--num.streams", "2")
    try:
        found = read_all(clusters.target, topic, 1)
    finally:
        mirror.terminate()
        _, errors = mirror.communicate()
    assert [(record.key, record.value) for record in found[0]] == [(no_text, no_text)]
    assert mirror.returncode == 0
    told = [line.partition("without effect: ")[2] for line in errors.decode().splitlines()]
    reason = "(keys and values pass as bytes)"
    assert sorted(told) == [f"key.serializer {reason}", f"value.deserializer {reason}"]


def first_line(mirror: subprocess.Popen[bytes]) -> str:
    assert mirror.stderr is not None
    return mirror.stderr.readline().decode()


def test_a_mirror_whose_target_was_never_there_ends_soon(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    """`send` waits for ever for the metadata of the topic."""
    topic = f"words-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(3))
    with ended_by_sigterm(
        start(*files(tmp_path, clusters.source, "127.0.0.1:1", alias), "--whitelist", topic)
    ) as mirror:
        # The first record makes the producer look for the target.
        assert "127.0.0.1:1" in first_line(mirror)
    assert committed(clusters.source, alias) == {}


def test_a_mirror_whose_target_has_gone_ends_soon(clusters: Clusters, alias: str, tmp_path: Path) -> None:
    """`flush` waits for ever for records that were sent."""
    topic = f"words-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(3))
    with KafkalogBroker(tmp_path / "target", AT_ONCE) as target:
        make(target.bootstrap, topic)
        words = files(tmp_path, clusters.source, target.bootstrap, alias)
        before = {TopicPartition(topic, 0): 3}
        with ended_by_sigterm(start(*words, "--whitelist", topic, "--offset.commit.interval.ms", "100")) as mirror:
            wait_until(lambda: committed(clusters.source, alias) == before, "positions are committed")
            target.kill()
            write(clusters.source, topic, range(3, 6))
            # The producer tells that nobody takes its records.
            assert target.bootstrap in first_line(mirror)
    assert committed(clusters.source, alias) == before


def test_classes_of_java_are_refused(tmp_path: Path) -> None:
    words = [*files(tmp_path, "a:1", "b:1", "g"), "--whitelist", "x", "--message.handler", "M"]
    assert "--message.handler is not supported" in call(*words, check=2).err


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    words = files(tmp_path, "a:1", "b:1", "g")
    (tmp_path / "consumer.properties").write_text("bootstrap.servers=a:1\n")
    assert "group.id is missing" in call(*words, "--whitelist", "x", check=2).err
    assert "whitelist" in call(*words, check=2).err
    (tmp_path / "consumer.properties").write_text("group.id=g\n")
    told = call(*words, "--whitelist", "x", check=2).err
    assert "bootstrap.servers is missing, or zookeeper.connect" in told
    (tmp_path / "consumer.properties").write_text("zookeeper.connect=a:1\n")
    assert "group.id is missing: name the group" in call(*words, "--whitelist", "x", check=2).err
    (tmp_path / "consumer.properties").write_text("bootstrap.servers=a:1\ngroup.id=g\n")
    (tmp_path / "producer.properties").write_text("acks=all\n")
    told = call(*words, "--whitelist", "x", check=2).err
    assert "bootstrap.servers is missing, or metadata.broker.list" in told
