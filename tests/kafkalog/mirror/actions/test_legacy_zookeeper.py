"""Test `kafkalog mirror legacy` with the properties of Kafka 0.8: a group in ZooKeeper, and a list of brokers."""

from __future__ import annotations

import subprocess
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.connector import ConsumerConnector
from kafkalog.client.consumer.topic_filter import Whitelist
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.legacy import connected
from kafkalog.mirror.legacy.connected import ConnectedStream
from kafkalog.mirror.legacy.running import run
from tests.kafkalog.mirror.conftest import Clusters, committed, read_all
from tests.kafkalog.mirror.writing import make, write
from tests.support.command import ended_by_sigterm, start
from tests.support.member import MemberCluster
from tests.support.waiting import wait_until

PARTITIONS = 4
REBALANCES = "rebalance.backoff.ms=200\nrebalance.max.retries=50\n"
"""A member may need longer than the four tries of the default to give its partitions up."""
Legacy = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def legacy(tmp_path: Path, alias: str, over_zookeeper: MemberCluster, clusters: Clusters) -> Iterator[Legacy]:
    """Start mirrors from the cluster with ZooKeeper; end them after the test."""
    with ExitStack() as stack:

        def begin(*words: str, consumer: str = "", producer: str = "") -> subprocess.Popen[bytes]:
            source, target = tmp_path / "consumer.properties", tmp_path / "producer.properties"
            # As the documents of Kafka 0.8 print them, but for the rebalances.
            source.write_text(
                f"zookeeper.connect={over_zookeeper.zookeeper}\nzookeeper.connection.timeout.ms=60000\n"
                f"group.id={alias}\nauto.offset.reset=smallest\n{REBALANCES}{consumer}"
            )
            target.write_text(producer or f"metadata.broker.list={clusters.target}\nproducer.type=async\n")
            files = ["--consumer.config", str(source), "--producer.config", str(target)]
            mirror = start("mirror", "legacy", *files, *words)
            stack.callback(end, mirror)
            return mirror

        yield begin


def end(mirror: subprocess.Popen[bytes]) -> str:
    """End a mirror; return what it has printed about problems."""
    if mirror.poll() is None:
        mirror.terminate()
    if mirror.stderr is None or mirror.stderr.closed:
        return ""
    _, errors = mirror.communicate()
    return errors.decode()


def old_consumer(over_zookeeper: MemberCluster, group: str) -> dict[str, str]:
    return {
        "zookeeper.connect": over_zookeeper.zookeeper,
        "group.id": group,
        "auto.offset.reset": "smallest",
        "rebalance.backoff.ms": "200",
        "rebalance.max.retries": "50",
    }


@contextmanager
def mirroring(
    source: dict[str, str], clusters: Clusters, topic: str, stop: threading.Event, streams: int = 1
) -> Iterator[None]:
    """Mirror a topic in this process, with no commits but those of rebalances and of the end, until the block ends."""
    options = {"streams": streams, "commit_interval": 3600.0, "abort": True, "stop": stop}
    arguments = ([source], {"bootstrap.servers": clusters.target}, Whitelist(topic))
    mirror = threading.Thread(target=run, args=arguments, kwargs=options)
    mirror.start()
    try:
        yield
    finally:
        stop.set()
        mirror.join()


def test_a_group_in_zookeeper_is_mirrored_and_goes_on(
    legacy: Legacy, over_zookeeper: MemberCluster, clusters: Clusters, alias: str
) -> None:
    topic = over_zookeeper.new_topic(PARTITIONS)
    make(clusters.target, topic, 2)
    over_zookeeper.write(topic, PARTITIONS, 0, 40)
    words = ("--whitelist", topic, "--num.streams", "2", "--offset.commit.interval.ms", "200")
    mirror = legacy(*words)
    read_all(clusters.target, topic, 40)

    def shares() -> list[int]:
        """Return how many partitions each stream owns."""
        return sorted(Counter(over_zookeeper.owners(alias, topic).values()).values())

    wait_until(lambda: shares() == [PARTITIONS // 2] * 2, "both streams have partitions")
    wanted = dict.fromkeys(range(PARTITIONS), 10)
    wait_until(lambda: over_zookeeper.offsets(alias, topic) == wanted, "offsets are committed in ZooKeeper")
    errors = end(mirror)
    assert mirror.returncode == 0, errors
    assert not over_zookeeper.names(f"/consumers/{alias}/ids")
    over_zookeeper.write(topic, PARTITIONS, 40, 20)
    mirror = legacy(*words)
    found = read_all(clusters.target, topic, 60)
    assert sorted(int(record.value or b"") for each in found.values() for record in each) == list(range(60))
    assert end(mirror) == ""
    assert over_zookeeper.offsets(alias, topic) == dict.fromkeys(range(PARTITIONS), 15)


def test_a_blacklist_and_properties_of_kafka_07(
    legacy: Legacy, over_zookeeper: MemberCluster, clusters: Clusters
) -> None:
    left, wanted = over_zookeeper.new_topic(), over_zookeeper.new_topic()
    for topic in (left, wanted):
        make(clusters.target, topic)
        over_zookeeper.write(topic, 1, 0, 3)
    others = f"(?!{wanted}|{left}).*|{left}"
    producer = (
        f"broker.list=0:{clusters.target}\ncompression.codec=1\nserializer.class=kafka.serializer.StringEncoder\n"
        "partitioner.class=kafka.producer.DefaultPartitioner\n"
    )
    mirror = legacy("--blacklist", others, producer=producer)
    read_all(clusters.target, wanted, 3)
    assert "without effect: partitioner.class, serializer.class" in end(mirror)
    read_all(clusters.target, left, 0)


def test_streams_that_end_leave_their_group_together(
    over_zookeeper: MemberCluster, clusters: Clusters, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first that leaves has the partitions of the other assigned anew, before that one has noted where it is."""
    topic = over_zookeeper.new_topic(PARTITIONS)
    make(clusters.target, topic, 2)
    over_zookeeper.write(topic, PARTITIONS, 0, 40)
    stop, flush = threading.Event(), ConnectedStream._flush

    def slow(stream: ConnectedStream) -> None:
        if stop.is_set() and threading.current_thread().name == "mirror-1":
            # Until the other has left and its partitions are here, if it does not wait.
            with suppress(AssertionError):
                wait_until(lambda: len(set(over_zookeeper.owners(alias, topic).values())) == 1, "it has left", 2.0)
        flush(stream)

    monkeypatch.setattr(ConnectedStream, "_flush", slow)
    with mirroring(old_consumer(over_zookeeper, alias), clusters, topic, stop, streams=2):
        read_all(clusters.target, topic, 40)
        wait_until(lambda: len(set(over_zookeeper.owners(alias, topic).values())) == 2, "both streams have partitions")
    assert over_zookeeper.offsets(alias, topic) == dict.fromkeys(range(PARTITIONS), 10)


def test_partitions_go_to_another_member_with_what_was_mirrored_of_them(
    over_zookeeper: MemberCluster, clusters: Clusters, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MirrorMaker 1 flushes and commits before it releases partitions."""
    topic = over_zookeeper.new_topic(PARTITIONS)
    make(clusters.target, topic, 2)
    over_zookeeper.write(topic, PARTITIONS, 0, 40)
    # Only a release commits.
    monkeypatch.setattr(connected, "FLUSH_S", 3600.0)
    source = old_consumer(over_zookeeper, alias)
    with mirroring(source, clusters, topic, threading.Event()):
        read_all(clusters.target, topic, 40)
        with ConsumerConnector(source) as other:
            other.create_message_streams({topic: 1})
            wait_until(lambda: len(set(over_zookeeper.owners(alias, topic).values())) == 2, "both have partitions")
            assert over_zookeeper.offsets(alias, topic) == dict.fromkeys(range(PARTITIONS), 10)


def test_a_record_that_the_target_refuses_ends_the_mirror_without_a_commit(
    legacy: Legacy, over_zookeeper: MemberCluster, clusters: Clusters, alias: str
) -> None:
    topic = over_zookeeper.new_topic()
    make(clusters.target, topic, max_message_bytes="10")
    over_zookeeper.write(topic, 1, 0, 1)
    mirror = legacy("--whitelist", topic, "--offset.commit.interval.ms", "100")
    _, errors = mirror.communicate(timeout=120)
    assert mirror.returncode == 1
    assert b"abort.on.send.failure" in errors
    assert over_zookeeper.offsets(alias, topic).get(0, 0) == 0


def test_a_mirror_whose_target_is_down_ends_soon(legacy: Legacy, over_zookeeper: MemberCluster, alias: str) -> None:
    topic = over_zookeeper.new_topic()
    over_zookeeper.write(topic, 1, 0, 3)
    with ended_by_sigterm(legacy("--whitelist", topic, producer="bootstrap.servers=127.0.0.1:1\n")) as mirror:
        assert mirror.stderr is not None
        # The first record makes the producer look for the target.
        assert b"127.0.0.1:1" in mirror.stderr.readline()
    assert over_zookeeper.offsets(alias, topic).get(0, 0) == 0


def test_brokers_of_the_target_are_found_in_zookeeper(
    legacy: Legacy, over_zookeeper: MemberCluster, clusters: Clusters
) -> None:
    """Source and target are the same cluster here: what the mirror writes it reads again, and writes again."""
    topic = TopicPartition(over_zookeeper.new_topic(), 0)
    over_zookeeper.write(topic.topic, 1, 0, 1)
    mirror = legacy("--whitelist", topic.topic, producer=f"zk.connect={over_zookeeper.zookeeper}\n")
    with Admin({"bootstrap.servers": over_zookeeper.bootstrap}) as admin:
        wait_until(
            lambda: list_offsets(admin.cluster, {topic: LATEST})[topic].offset > 3,
            "records come into the cluster that ZooKeeper names",
        )
    end(mirror)


def test_bootstrap_servers_go_before_zookeeper(
    legacy: Legacy, over_zookeeper: MemberCluster, clusters: Clusters, alias: str
) -> None:
    topic = f"words-{alias}"
    for address in clusters:
        make(address, topic)
    write(clusters.source, topic, range(5))
    more = f"bootstrap.servers={clusters.source}\nauto.offset.reset=earliest\n"
    producer = f"bootstrap.servers={clusters.target}\nmetadata.broker.list=nohost:1\n"
    mirror = legacy("--whitelist", topic, consumer=more, producer=producer)
    read_all(clusters.target, topic, 5)
    errors = end(mirror)
    assert "bootstrap.servers goes before zookeeper.connect: the group is one of the brokers" in errors
    assert "bootstrap.servers goes before metadata.broker.list" in errors
    assert committed(clusters.source, alias) == {TopicPartition(topic, 0): 5}
    assert not over_zookeeper.names(f"/consumers/{alias}")
