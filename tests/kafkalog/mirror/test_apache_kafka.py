"""Test mirrors from and to Apache Kafka, and what MirrorMaker 2's own classes say about them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigResource
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.internal_topics.formats import SourcePosition
from kafkalog.mirror.keeping.errors import OffsetsIgnoredError
from kafkalog.mirror.keeping.sender import Place
from kafkalog.mirror.keeping.task import KeptTask
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.follower import MIRROR_SOURCE
from kafkalog.records.batch import NO_PRODUCER_ID
from peers import require
from peers.brokers import kafka
from peers.toolchains import java
from tests.kafkalog.mirror.conftest import Clusters, Mirror, StartMirror, all_contents, read_all
from tests.kafkalog.mirror.created_again import create_again
from tests.kafkalog.mirror.drilling import GroupDrill
from tests.kafkalog.mirror.golden import RECORDS
from tests.kafkalog.mirror.housekeeping.support import ON, checkpoints, commit
from tests.kafkalog.mirror.keeping.batches import batch
from tests.kafkalog.mirror.keeping.kept import KEEP, fails, same
from tests.kafkalog.mirror.writing import make, transactions, write
from tests.support.waiting import wait_until

PROGRAM = Path(__file__).with_name("Mirror2.java")
BEATING = {"emit_heartbeats_enabled": "true", "heartbeats_replication_enabled": "true"}


@pytest.fixture(scope="module")
def apache_kafka(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return host:port of an Apache Kafka."""
    require(kafka.missing(kafka.KAFKA_3))
    config = {"group.initial.rebalance.delay.ms": "0"}
    directory = tmp_path_factory.mktemp("kafka") / "broker"
    with kafka.ApacheKafka(kafka.KAFKA_3, directory=directory, config=config, heap=("-Xmx256M",)) as broker:
        yield broker.bootstrap


@pytest.fixture(params=["to Apache Kafka", "from Apache Kafka"])
def clusters(request: pytest.FixtureRequest, apache_kafka: str, broker_address: str) -> Clusters:
    """Mirror in both directions."""
    one, other = broker_address, apache_kafka
    return Clusters(one, other) if request.param == "to Apache Kafka" else Clusters(other, one)


def mirrormaker(*words: str) -> list[str]:
    """Run the program with MirrorMaker 2's classes; return the lines that it prints."""
    require(kafka.mirror_missing())
    logging = kafka.logging_options(kafka.KAFKA_3, kafka.tool_directory(kafka.KAFKA_3))
    options = ("-Xmx256M", "-Dfile.encoding=UTF-8", *logging)
    return java.run_java(kafka.mirror_classpath(), str(PROGRAM), words, jvm=options).splitlines()


@pytest.mark.usefixtures("foreign_programs")
def test_golden_bytes_are_those_of_apache_kafkas_classes() -> None:
    position = SourcePosition("A", TopicPartition("words", 2), 124)
    value = position.value()
    assert value is not None
    assert mirrormaker("golden") == [
        *(f"{key} {value}" for _, key, value in RECORDS),
        f"{position.key().decode()} {value.decode()}",
    ]


def test_offsets_are_kept(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"kept-{alias}"
    remote = f"{alias}.{topic}"
    make(clusters.source, topic, 2)
    write(clusters.source, topic, range(100), None, compression_type="lz4", linger_ms="20")
    mirror = start_mirror(topic, **KEEP)
    same(clusters, topic, remote, 100)
    mirror.stop()
    write(clusters.source, topic, range(100, 150), None, enable_idempotence="true")
    mirror = start_mirror(topic, **KEEP)
    same(clusters, topic, remote, 150)
    count = 160 + transactions(clusters.source, topic, alias, 10, compression_type="zstd")
    write(clusters.source, topic, range(150, 160))
    with Admin(clusters.client("target")) as target:
        configs = target.describe_configs([ConfigResource.topic(remote)])[ConfigResource.topic(remote)]
    if MIRROR_SOURCE in configs:
        same(clusters, topic, remote, count)
    else:
        # An aborted transaction is the first one.
        assert "has no record to mirror at offset" in fails(mirror)
        assert len(read_all(clusters.target, remote, 150)) == 2


def test_apache_kafka_is_not_sent_offsets_that_it_would_ignore(apache_kafka: str, alias: str) -> None:
    """It may lead a partition in a cluster whose other brokers are of kafkalog."""
    tp, remote = TopicPartition("words", 0), TopicPartition(f"{alias}.words", 0)
    client = {"bootstrap.servers": apache_kafka}
    settings, _ = MirrorSettings.of({}, alias, "target", (client, client))
    make(apache_kafka, remote.topic)
    task = KeptTask(settings, {tp: Place(remote, True, 0)}, NO_PRODUCER_ID)
    try:
        task.start()
        task.send(tp, batch(0, True))
        with pytest.raises(
            OffsetsIgnoredError, match=r"it is one of Apache Kafka, or of an older kafkalog\. Move these"
        ):
            task.commit()
    finally:
        task.close()
    with Admin(client) as admin:
        assert list_offsets(admin.cluster, {remote: LATEST})[remote].offset == 0


def test_a_topic_without_its_beginning(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"late-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(10))
    write(clusters.source, topic, range(10, 20))
    with Admin(clusters.client("source")) as source, Admin(clusters.client("target")) as target:
        source.delete_records({TopicPartition(topic, 0): 10})
        mirror = start_mirror(topic, **KEEP)
        wait_until(lambda: f"{alias}.{topic}" in target.list_topics(), "the topic is created")
        resource = ConfigResource.topic(f"{alias}.{topic}")
        if MIRROR_SOURCE in target.describe_configs([resource])[resource]:
            same(clusters, topic, f"{alias}.{topic}", 10)
        else:
            assert "has no record to mirror at offset 0" in fails(mirror)


def test_a_topic_that_is_created_again(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"again-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic)
    read_all(clusters.target, f"{alias}.{topic}", 5)
    create_again(clusters, topic)
    write(clusters.source, topic, range(100, 110))
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 15).values()
    assert [record.value for record in found] == [b"v%d" % number for number in (*range(5), *range(100, 110))]
    mirror.stop()
    create_again(clusters, topic)
    write(clusters.source, topic, range(200, 220))
    start_mirror(topic)
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 35).values()
    assert [record.value for record in found[15:]] == [b"v%d" % number for number in range(200, 220)]


def test_a_kept_topic_that_is_created_again(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    """Its records are the same at the same offsets, and it has more of them."""
    topic = f"kept-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **KEEP)
    read_all(clusters.target, f"{alias}.{topic}", 5)
    create_again(clusters, topic)
    write(clusters.source, topic, range(8))
    assert f"Delete the topic {alias}.{topic} in the target" in fails(mirror)
    assert f"Delete the topic {alias}.{topic} in the target" in fails(start_mirror(topic, **KEEP))


def test_apache_kafka_takes_and_gives(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, group = f"words-{alias}", f"readers-{alias}"
    remote = TopicPartition(f"{alias}.{topic}", 0)
    # The times of its records are decades apart. They stay in one segment, or all but few keys may be compacted away.
    make(clusters.source, topic, 2, cleanup_policy="compact", segment_ms=str(100 * 365 * 86_400_000))
    write(clusters.source, topic, range(100), None, compression_type="lz4", linger_ms="20")
    count = 100 + transactions(clusters.source, topic, alias, 10, compression_type="zstd")
    there = read_all(clusters.source, topic, count)
    # Behind aborted records and markers, which the target does not have.
    upstream = there[0][-1].offset
    commit(clusters.source, group, topic, upstream)
    mirror: Mirror = start_mirror(topic, groups=group, **ON, **BEATING)
    found = read_all(clusters.target, remote.topic, count)
    assert all_contents(found) == all_contents(there)
    state = mirror.progress.partitions()[TopicPartition(topic, 0)]
    assert state.records == len(there[0])
    wait_until(lambda: remote in checkpoints(clusters, alias, group), "the position is translated")
    with Admin(clusters.client("target")) as target:
        wait_until(lambda: f"{alias}.heartbeats" in target.list_topics(), "heartbeats come over")
    said = dict(line.split(" ", 1) for line in mirrormaker(clusters.target, alias, group))
    downstream = found[0][-1].offset
    assert downstream != upstream
    assert said["offsets"] == f"{{{remote}={downstream}}}"
    assert alias in said["upstream"]
    assert said["hops"] == "1"
    assert f"{alias}.checkpoints.internal" in said["checkpoints"]
    assert f"{alias}.heartbeats" in said["heartbeats"]


@pytest.mark.parametrize("naming", ["default", "identity"])
def test_a_group_goes_over_and_back(clusters: Clusters, start_mirror: StartMirror, alias: str, naming: str) -> None:
    """It misses nothing, and repeats at most what it had not committed."""
    drill = GroupDrill(clusters, alias, naming)
    mirror = start_mirror(drill.topic, groups=drill.group, replication_policy_class=naming, **ON)
    drill.write()
    drill.read_in_source(mirror)
    drill.read_in_target()
    drill.read_the_rest(mirror)
