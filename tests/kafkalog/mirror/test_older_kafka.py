"""Test mirrors from and to brokers of older releases of Apache Kafka: the oldest one for our clients, and the last of
2.x, which has no ids of topics in its responses to Fetch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigChange, ConfigResource
from kafkalog.client.producer import Producer
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying import held
from peers.brokers import kafka
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, all_contents, committed, read_all
from tests.kafkalog.mirror.created_again import create_again
from tests.kafkalog.mirror.housekeeping.support import ON, checkpoints, commit
from tests.kafkalog.mirror.keeping.kept import KEEP, same
from tests.kafkalog.mirror.values import OWN, values_of, write_values
from tests.kafkalog.mirror.writing import make, transactions, write
from tests.support.older_kafka import older_kafka
from tests.support.waiting import wait_until


@pytest.fixture(scope="module", params=(kafka.KAFKA_0, kafka.KAFKA_2))
def older(
    request: pytest.FixtureRequest, foreign_programs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Run a broker of a release; return the release and host:port."""
    version = str(request.param)
    with older_kafka(version, tmp_path_factory.mktemp("older")) as address:
        yield version, address


@pytest.fixture
def clusters(older: tuple[str, str], broker_address: str) -> Clusters:
    return Clusters(older[1], broker_address)


@pytest.fixture
def codec(older: tuple[str, str]) -> str:
    """Return a codec that the release knows."""
    return "gzip" if older[0] == kafka.KAFKA_0 else "zstd"


def test_offsets_are_kept(clusters: Clusters, codec: str, start_mirror: StartMirror, alias: str) -> None:
    address = clusters.source
    topic = f"kept-{alias}"
    remote = f"{alias}.{topic}"
    make(address, topic, 2)
    write(address, topic, range(100), None, compression_type="lz4", linger_ms="20")
    mirror = start_mirror(topic, **KEEP)
    same(clusters, topic, remote, 100)
    mirror.stop()
    count = 100 + transactions(address, topic, alias, 10, compression_type=codec)
    write(address, topic, range(100, 150), None)
    start_mirror(topic, **KEEP)
    same(clusters, topic, remote, count + 50)


def test_records_of_the_oldest_format(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    """A topic in which Apache Kafka stores message sets of version 0, without timestamps and headers."""
    address = clusters.source
    topic = f"v0-{alias}"
    make(address, topic, 1, message_format_version="0.9.0")
    # It takes no headers.
    with Producer(
        {"bootstrap.servers": address, "compression.type": "gzip", "enable.idempotence": "false"}
    ) as producer:
        futures = [producer.send(topic, b"v%d" % number, b"k") for number in range(50)]
        producer.flush()
    assert [future.result().offset for future in futures] == list(range(50))
    start_mirror(topic)
    there, found = read_all(address, topic, 50), read_all(clusters.target, f"{alias}.{topic}", 50)
    assert [each.value for each in found[0]] == [each.value for each in there[0]] == [b"v%d" % n for n in range(50)]
    assert [each.key for each in found[0]] == [each.key for each in there[0]]


@pytest.mark.parametrize("direction", ["from", "to"])
def test_records_and_groups(
    clusters: Clusters, codec: str, start_mirror: StartMirror, alias: str, direction: str
) -> None:
    if direction == "to":
        clusters = Clusters(clusters.target, clusters.source)
    topic, group = f"words-{alias}", f"readers-{alias}"
    remote = TopicPartition(f"{alias}.{topic}", 0)
    make(clusters.source, topic, 2)
    write(clusters.source, topic, range(100), None, compression_type="lz4", linger_ms="20")
    count = 100 + transactions(clusters.source, topic, alias, 10, compression_type=codec)
    there = read_all(clusters.source, topic, count)
    upstream = there[0][-1].offset
    commit(clusters.source, group, topic, upstream)
    mirror = start_mirror(
        topic, source=clusters.source, target=clusters.target, groups=group, replication_factor="1", **ON
    )
    found = read_all(clusters.target, remote.topic, count)
    assert all_contents(found) == all_contents(there)
    wait_until(lambda: remote in checkpoints(clusters, alias, group), "the position is translated")
    wait_until(
        lambda: committed(clusters.target, group).get(remote) == found[0][-1].offset, "the group has its position"
    )
    create_again(clusters, topic)
    write(clusters.source, topic, range(200, 210))
    (more,) = (each for each in read_all(clusters.target, remote.topic, count + 10).values() if len(each) > 60)
    assert [record.value for record in more[-10:]] == [b"v%d" % number for number in range(200, 210)]
    assert mirror.stop() is None


@pytest.mark.parametrize("older", [kafka.KAFKA_0], indirect=True)
def test_configurations_follow_to_an_older_target(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    """Brokers before Kafka 2.3 replace all configurations of a topic at once."""
    topic = f"configured-{alias}"
    ours, theirs = ConfigResource.topic(topic), ConfigResource.topic(f"{alias}.{topic}")
    newer, older = clusters.target, clusters.source
    make(newer, topic, 1, retention_ms="1000000", max_message_bytes="2000000")
    start_mirror(topic, source=newer, target=older, replication_factor="1")
    with Admin({"bootstrap.servers": newer}) as source, Admin({"bootstrap.servers": older}) as target:

        def has(retention: str) -> bool:
            if theirs.name not in target.list_topics():
                return False
            found = target.describe_configs([theirs])[theirs]
            return (found["retention.ms"].value, found["max.message.bytes"].value) == (retention, "2000000")

        wait_until(lambda: has("1000000"), "the topic is made")
        source.incremental_alter_configs({ours: [ConfigChange("retention.ms", "2000000")]})
        wait_until(lambda: has("2000000"), "the change is copied")


def test_a_record_without_key_does_not_hold_other_partitions_up(
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kafka before 2.4 calls it corrupt, which is otherwise an error that passes."""
    monkeypatch.setattr(held, "PAUSE_S", 0.5)
    older, newer = clusters
    topic = f"words-{alias}"
    keyless, other = TopicPartition(topic, 0), TopicPartition(topic, 1)
    make(newer, topic, 2)
    make(older, f"{alias}.{topic}", 2, cleanup_policy="compact")
    for partition, key in ((0, None), (1, b"k")):
        write_values(newer, topic, [b"v0"], partition=partition)
        write_values(newer, topic, [b"v1"], key, partition)
        write_values(newer, topic, [b"v2"], partition=partition)
    mirror = start_mirror(topic, source=newer, target=older, tasks_max="1", replication_factor="1", **OWN)
    told = f"{keyless} is held at offset 1 of the source, because the target refuses the record batch there"
    wait_until(lambda: caplog.text.count(told) > 1, "it is tried again")
    wait_until(lambda: mirror.positions == {keyless: 1, other: 3}, "the other one is mirrored")
    with Admin({"bootstrap.servers": newer}) as admin:
        admin.delete_records({keyless: 2})
    found = read_all(older, f"{alias}.{topic}", 5)
    assert (values_of(found[0]), values_of(found[1])) == ([b"v0", b"v2"], [b"v0", b"v1", b"v2"])
    assert (mirror.progress.restarts, mirror.stop()) == (0, None)
