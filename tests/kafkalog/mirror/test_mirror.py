"""Test mirrors between two real clusters."""

from __future__ import annotations

import pytest

from kafkalog.client.admin import Admin, NewTopic
from kafkalog.client.admin.configs import ConfigChange, ConfigResource
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.producer import Producer
from kafkalog.client.types import READ_COMMITTED, READ_UNCOMMITTED, TopicPartition
from kafkalog.mirror.internal_topics.stored import read_positions, returning_topics
from kafkalog.mirror.settings import MirrorSettings
from tests.kafkalog.mirror.conftest import (
    IDENTITY,
    QUICK,
    Clusters,
    Mirror,
    StartMirror,
    all_contents,
    committed,
    contents,
    read_all,
    settings_of,
)
from tests.kafkalog.mirror.writing import make, write
from tests.support.command import call
from tests.support.waiting import wait_until


def test_records_keep_what_they_are_and_their_partitions(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"words-{alias}"
    make(clusters.source, topic, 3)
    # Small batches would be joined. One of each partition goes out at the end, however slowly records are written.
    write(clusters.source, topic, range(500), None, compression_type="lz4", linger_ms="60000", batch_size="1000000")
    mirror = start_mirror(topic)
    there = read_all(clusters.source, topic, 500)
    found = read_all(clusters.target, f"{alias}.{topic}", 500)
    assert len(found) > 1
    assert all_contents(found) == all_contents(there)
    ends = {TopicPartition(topic, number): len(there.get(number, ())) for number in range(3)}
    wait_until(
        lambda: committed(clusters.source, mirror.settings.group_id) == {k: v for k, v in ends.items() if v},
        "the group in the source shows how far the mirror is",
    )
    state = mirror.progress.partitions()
    assert sum(each.records for each in state.values()) == 500
    assert all(each.lag in (0, None) and not each.decoded for each in state.values())
    assert mirror.stop() is None
    assert {tp: at for tp, at in read_positions(mirror.settings).items() if at} == {k: v for k, v in ends.items() if v}


def test_topics_of_an_older_mirror_get_what_nobody_has_set(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    """MirrorMaker 2 creates them with segments of 1 GiB, which a new process would read whole."""
    topic = f"older-{alias}"
    make(clusters.source, topic)
    names = (f"mm2-offsets.{alias}.internal", f"mm2-offset-syncs.{alias}.internal")
    make(clusters.target, names[0], cleanup_policy="compact")
    make(clusters.target, names[1], cleanup_policy="compact", segment_bytes="1000000")
    start_mirror(topic)
    with Admin({"bootstrap.servers": clusters.target}) as admin:

        def sizes() -> list[tuple[str | None, str | None]]:
            configs = [admin.describe_configs([each])[each] for each in map(ConfigResource.topic, names)]
            return [(each["segment.bytes"].value, each["delete.retention.ms"].value) for each in configs]

        wait_until(lambda: sizes() == [("16777216", "600000"), ("1000000", "600000")], "the topics are configured")


SELDOM = {"offset_flush_interval_ms": "600000"}
"""No test waits for so long."""


def test_records_do_not_wait_for_the_interval_where_there_are_no_more(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"soon-{alias}"
    make(clusters.source, topic, 3)
    start_mirror(topic, **SELDOM)
    for number in range(3):
        write(clusters.source, topic, range(number, number + 1), number)
        read_all(clusters.target, f"{alias}.{topic}", number + 1)


def test_records_wait_for_the_interval_where_it_is_the_boundary(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"later-{alias}"
    remote = TopicPartition(f"{alias}.{topic}", 0)
    make(clusters.source, topic)
    write(clusters.source, topic, range(10))
    mirror = start_mirror(topic, transaction_boundary="interval", **SELDOM)
    with Admin(clusters.client("target")) as admin:

        def end(isolation: int) -> int:
            return list_offsets(admin.cluster, {remote: LATEST}, isolation)[remote].offset

        wait_until(lambda: remote.topic in admin.list_topics() and end(READ_UNCOMMITTED) == 10, "all are in the target")
        assert end(READ_COMMITTED) == 0
        assert mirror.stop() is None
    read_all(clusters.target, remote.topic, 10)


def test_a_mirror_goes_on_where_the_last_one_stopped(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"again-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(10))
    mirror = start_mirror(topic)
    read_all(clusters.target, f"{alias}.{topic}", 10)
    mirror.stop()
    write(clusters.source, topic, range(10, 20))
    start_mirror(topic)
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 20).values()
    assert [record.value for record in found] == [b"v%d" % number for number in range(20)]


def test_aborted_transactions_stay_behind(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"transactions-{alias}"
    make(clusters.source, topic)
    with Producer({"bootstrap.servers": clusters.source, "transactional.id": alias}) as producer:
        producer.init_transactions()
        for number in range(6):
            producer.begin_transaction()
            producer.send(topic, b"v%d" % number)
            producer.flush()
            if number % 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    mirror = start_mirror(topic)
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 3).values()
    assert [record.value for record in found] == [b"v0", b"v2", b"v4"]
    # Markers and aborted records count for the position.
    wait_until(lambda: read_positions(mirror.settings) == {TopicPartition(topic, 0): 12}, "the position is the end")


def test_topics_follow_the_source(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, later = f"t-{alias}", f"t-{alias}-later"
    remote = f"{alias}.{topic}"
    make(clusters.source, topic, 2, retention_ms="123456789", min_insync_replicas="1")
    start_mirror(f"t-{alias}.*")
    with Admin(clusters.client("source")) as source, Admin(clusters.client("target")) as target:

        def configs() -> dict[str, str | None]:
            entries = target.describe_configs([ConfigResource.topic(remote)])[ConfigResource.topic(remote)]
            return {name: each.value for name, each in entries.items() if each.source.name == "TOPIC"}

        wait_until(lambda: remote in target.list_topics(), "the topic is there")
        assert len(target.describe_topics([remote])[remote].partitions) == 2
        assert configs() == {"retention.ms": "123456789"}
        changes = [ConfigChange("retention.ms", "987654321"), ConfigChange("cleanup.policy", "compact")]
        source.incremental_alter_configs({ConfigResource.topic(topic): changes})
        wanted = {"retention.ms": "987654321", "cleanup.policy": "compact"}
        wait_until(lambda: configs() == wanted, "configurations are copied")
        source.create_partitions({topic: 3})
        source.create_topics([NewTopic(later, 1, 1)])
        wait_until(lambda: len(target.describe_topics([remote])[remote].partitions) == 3, "a partition is added")
        wait_until(lambda: f"{alias}.{later}" in target.list_topics(), "a new topic is found")
    write(clusters.source, topic, range(5), 2)
    write(clusters.source, later, range(5))
    assert set(read_all(clusters.target, remote, 5)) == {2}
    read_all(clusters.target, f"{alias}.{later}", 5)


def test_configurations_that_changed_while_no_mirror_ran_follow_soon_after_the_start(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic, remote = f"t-{alias}", ConfigResource.topic(f"{alias}.t-{alias}")
    make(clusters.source, topic, retention_ms="123456789")
    rarely = {"sync_topic_configs_interval_seconds": "3600"}
    mirror = start_mirror(topic, **rarely)
    with Admin(clusters.client("source")) as source, Admin(clusters.client("target")) as target:
        wait_until(lambda: remote.name in target.list_topics(), "the topic is there")
        assert mirror.stop() is None
        changes = [ConfigChange("retention.ms", "987654321")]
        source.incremental_alter_configs({ConfigResource.topic(topic): changes})
        start_mirror(topic, **rarely)

        def retention() -> str | None:
            return target.describe_configs([remote])[remote]["retention.ms"].value

        wait_until(lambda: retention() == "987654321", "the configuration is copied")


def test_latest_begins_at_the_end_and_stays_there(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"late-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(10))
    mirror = start_mirror(topic, auto_offset_reset="latest")
    wait_until(lambda: read_positions(mirror.settings) == {TopicPartition(topic, 0): 10}, "the beginning is stored")
    mirror.stop()
    write(clusters.source, topic, range(10, 15))
    start_mirror(topic, auto_offset_reset="latest")
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 5).values()
    assert found[0].value == b"v10"


def test_two_processes_share_the_work(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"shared-{alias}"
    make(clusters.source, topic, 4)
    write(clusters.source, topic, range(100), None)
    mirrors = [start_mirror(topic) for _ in range(2)]
    wait_until(lambda: [len(each.progress.partitions()) for each in mirrors] == [2, 2], "each has two partitions")
    write(clusters.source, topic, range(100, 200), None)
    there = read_all(clusters.source, topic, 200)
    found = read_all(clusters.target, f"{alias}.{topic}", 200)
    assert all_contents(found) == all_contents(there)
    mirrors[0].stop()
    wait_until(lambda: len(mirrors[1].progress.partitions()) == 4, "the other takes over")
    write(clusters.source, topic, range(200, 210), None)
    read_all(clusters.target, f"{alias}.{topic}", 210)


def test_identity_mirrors_both_ways_without_a_loop(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, back = f"there-{alias}", f"back-{alias}"
    make(clusters.source, topic)
    make(clusters.target, back)
    write(clusters.source, topic, range(3))
    write(clusters.target, back, range(3))
    forth = start_mirror(f".*-{alias}", **IDENTITY)
    read_all(clusters.target, topic, 3)
    forth.stop()
    reverse = start_mirror(f".*-{alias}", reverse=True, **IDENTITY)
    assert set(read_all(clusters.source, back, 3)) == {0}
    assert returning_topics(reverse.settings) == {topic}
    forth = start_mirror(f".*-{alias}", **IDENTITY)
    write(clusters.source, topic, range(3, 6))
    write(clusters.target, back, range(3, 6))
    read_all(clusters.target, topic, 6)
    read_all(clusters.source, back, 6)
    assert set(forth.progress.partitions()) == {TopicPartition(topic, 0)}
    assert set(reverse.progress.partitions()) == {TopicPartition(back, 0)}


def test_a_cluster_is_not_mirrored_into_itself_under_the_same_names(clusters: Clusters, alias: str) -> None:
    words = ("mirror", "start", "--source", clusters.source, "--target", clusters.source, "--topics", alias)
    assert "are the same cluster" in call(*words, "--naming", "identity", check=2).err


@pytest.mark.parametrize("offsets", ["translate", "keep"])
def test_a_cluster_that_is_mirrored_into_itself_gets_one_copy_of_each_topic(
    clusters: Clusters, alias: str, offsets: str, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no copy of a copy: `A.A.words`."""
    words, later = f"words-{alias}", f"later-{alias}"
    properties = {**QUICK, "topics": rf"(.*\.)?(words|later)-{alias}", "replication.offsets": offsets}
    clients = clusters.client("source"), clusters.client("source")
    settings, _ = MirrorSettings.of(properties, alias, "target", clients)
    mirror = Mirror(settings)
    try:
        for topic in (words, later):
            make(clusters.source, topic)
            write(clusters.source, topic, range(3))
            read_all(clusters.source, f"{alias}.{topic}", 3)
        # What has found the later topic has seen the copy of the first one.
        assert {tp.topic for tp in mirror.progress.partitions()} == {words, later}
        assert mirror.stop() is None
        mirror = Mirror(settings)
        told = f"that they are mirrored already: {alias}.{later}, {alias}.{words}"
        wait_until(lambda: told in caplog.text, "the next process names what it leaves out")
        wait_until(lambda: len(mirror.progress.partitions()) == 2, "it goes on with both topics")
    finally:
        mirror.stop()
    with Admin(clients[0]) as admin:
        copies = [name for name in admin.list_topics() if name.endswith((words, later)) and name.startswith(alias)]
    assert sorted(copies) == sorted([f"{alias}.{words}", f"{alias}.{later}"])
    words_of = ["--source", clusters.source, "--target", clusters.source, "--source-alias", alias]
    status = call("mirror", "status", *words_of, "--topics", settings.topics, "--offsets", offsets)
    assert [line.split()[0] for line in status.out[1:] if alias in line] == sorted([words, later])


def test_later_topics_do_not_come_back_under_their_own_names(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    later, last = f"later-{alias}", f"last-{alias}"
    start_mirror(f".*-{alias}", **IDENTITY)
    start_mirror(f".*-{alias}", reverse=True, **IDENTITY)
    make(clusters.source, later)
    write(clusters.source, later, range(3))
    read_all(clusters.target, later, 3)
    # When the mirror of the other direction has found a newer topic, it has found this one.
    make(clusters.target, last)
    write(clusters.target, last, range(3))
    read_all(clusters.source, last, 3)
    write(clusters.source, later, range(3, 6))
    for address in clusters:
        read_all(address, later, 6)
        read_all(address, last, 3)


def test_one_direction_takes_a_topic_that_both_clusters_have(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"both-{alias}"
    for address in clusters:
        make(address, topic)
        write(address, topic, range(3))
    mirrors = {
        clusters.target: start_mirror(topic, **IDENTITY),
        clusters.source: start_mirror(topic, reverse=True, **IDENTITY),
    }

    def taken() -> list[str]:
        return [address for address, mirror in mirrors.items() if mirror.progress.partitions()]

    def left() -> list[str]:
        return [address for address, mirror in mirrors.items() if topic in returning_topics(mirror.settings)]

    wait_until(lambda: len(taken()) == len(left()) == 1, "one direction has the topic")
    assert taken() != left()
    (written,) = taken()
    (other,) = left()
    read_all(written, topic, 6)
    read_all(other, topic, 3)


def test_names_that_tell_their_way_do_not_come_back(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"words-{alias}"
    make(clusters.source, topic)
    make(clusters.target, topic)
    write(clusters.source, topic, range(3))
    write(clusters.target, topic, range(3))
    start_mirror(rf"(.*\.)?{topic}")
    start_mirror(rf"(.*\.)?{topic}", reverse=True)
    read_all(clusters.target, f"{alias}.{topic}", 3)
    read_all(clusters.source, f"target.{topic}", 3)
    with Admin(clusters.client("target")) as target:
        assert [name for name in target.list_topics() if topic in name] == sorted([f"{alias}.{topic}", topic])


def test_the_time_of_appending_is_kept(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"stamped-{alias}"
    make(clusters.source, topic, message_timestamp_type="LogAppendTime")
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic)
    (there,), (found,) = (
        read_all(address, name, 5).values()
        for address, name in ((clusters.source, topic), (clusters.target, f"{alias}.{topic}"))
    )
    assert contents(found) == contents(there)
    assert {each.timestamp_type for each in found} == {0}
    assert mirror.progress.partitions()[TopicPartition(topic, 0)].decoded


def test_other_settings_of_the_same_mirror_are_refused(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"tasks-{alias}"
    make(clusters.source, topic)
    first = start_mirror(topic)
    wait_until(lambda: bool(first.progress.partitions()), "the first has the partition")
    second = start_mirror(topic, tasks_max="3")
    wait_until(lambda: not second.running, "the second ends")
    failure = second.stop()
    assert "partition.assignment.strategy" in str(failure) or "protocol" in str(failure)


def test_a_limit_of_bytes_loses_nothing(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"slow-{alias}"
    make(clusters.source, topic)
    for _ in range(4):
        write(clusters.source, topic, range(20))
    mirror = start_mirror(topic, max_bytes_per_second="3000", auto_offset_reset="earliest")
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 80).values()
    assert [record.value for record in found] == [b"v%d" % number for number in range(20)] * 4
    assert mirror.stop() is None


def test_a_limit_of_bytes_holds_records_back(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"held-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(20), linger_ms="60000", batch_size="1000000")
    # The first batch is a debt of many minutes.
    held, free = start_mirror(topic, max_bytes_per_second="1"), Mirror(settings_of(clusters, f"free-{alias}", topic))
    try:
        _wait_for_records(held, 20)
        for number in range(1, 6):
            write(clusters.source, topic, range(20))
            # A mirror without a limit goes on.
            _wait_for_records(free, 20 * (number + 1))
        assert _records(held) == 20
    finally:
        assert free.stop() is None
    assert held.stop() is None
    start_mirror(topic)
    (found,) = read_all(clusters.target, f"{alias}.{topic}", 120).values()
    assert [record.value for record in found] == [b"v%d" % number for number in range(20)] * 6


def _wait_for_records(mirror: Mirror, count: int) -> None:
    wait_until(lambda: _records(mirror) == count, f"{count} records are mirrored")


def _records(mirror: Mirror) -> int:
    return sum(each.records for each in mirror.progress.partitions().values())
