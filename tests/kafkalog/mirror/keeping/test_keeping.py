"""Test mirrors that keep the offsets of their source, between two real clusters."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import ConfigChange, ConfigOperation, ConfigResource
from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer import Consumer
from kafkalog.client.offsets import EARLIEST, LATEST, list_offsets
from kafkalog.client.types import (
    READ_UNCOMMITTED,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from kafkalog.mirror.copying.positions.leaderless import LeaderlessPartitions
from kafkalog.mirror.internal_topics.stored import returning_topics
from kafkalog.mirror.keeping.topics import adopt
from kafkalog.mirror.topics.follower import MIRROR_SOURCE
from tests.kafkalog.mirror.conftest import (
    IDENTITY,
    Clusters,
    StartMirror,
    committed,
    read_all,
    settings_of,
)
from tests.kafkalog.mirror.housekeeping.support import ON, commit
from tests.kafkalog.mirror.keeping.kept import KEEP, fails, located, same
from tests.kafkalog.mirror.writing import make, transactions, write
from tests.support.command import call
from tests.support.waiting import wait_until


def mirror_source(address: str, topic: str, change: ConfigChange | None = None) -> str | None:
    """Return the configuration that makes a topic a mirror; change it first if wanted."""
    resource = ConfigResource.topic(topic)
    with Admin({"bootstrap.servers": address}) as admin:
        if change is not None:
            admin.incremental_alter_configs({resource: [change]})
        return admin.describe_configs([resource])[resource][MIRROR_SOURCE].value


def test_offsets_are_those_of_the_source(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"words-{alias}"
    remote = f"{alias}.{topic}"
    make(clusters.source, topic, 3)
    write(clusters.source, topic, range(500), None, compression_type="lz4")
    mirror = start_mirror(topic, **KEEP)
    same(clusters, topic, remote, 500)
    assert mirror_source(clusters.target, remote) == alias
    count = 500 + transactions(clusters.source, topic, alias, 12)
    write(clusters.source, topic, range(500, 520), 0, enable_idempotence="true")
    same(clusters, topic, remote, count + 20)
    state = mirror.progress.partitions()
    assert not any(each.decoded for each in state.values())
    wait_until(lambda: all(each.lag in (0, None) for each in mirror.progress.partitions().values()), "nothing is left")
    assert mirror.stop() is None
    # Another process goes on where the target ends.
    write(clusters.source, topic, range(520, 540), None)
    start_mirror(topic, **KEEP)
    same(clusters, topic, remote, count + 40)


def test_a_log_begins_where_the_source_begins(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"late-{alias}"
    tp, remote = TopicPartition(topic, 0), TopicPartition(f"{alias}.{topic}", 0)
    make(clusters.source, topic)
    for first in range(0, 100, 10):
        write(clusters.source, topic, range(first, first + 10))
    with Admin(clusters.client("source")) as admin:
        admin.delete_records({tp: 35})
    start_mirror(topic, **KEEP)
    same(clusters, topic, remote.topic, 65)
    with Admin(clusters.client("target")) as admin:
        wait_until(lambda: list_offsets(admin.cluster, {remote: EARLIEST})[remote].offset == 35, "the log begins late")


def test_the_time_of_appending_is_kept(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"stamped-{alias}"
    make(clusters.source, topic, message_timestamp_type="LogAppendTime")
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **KEEP)
    same(clusters, topic, f"{alias}.{topic}", 5)
    assert not mirror.progress.partitions()[TopicPartition(topic, 0)].decoded


def test_groups_have_the_same_positions(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, group = f"words-{alias}", f"readers-{alias}"
    remote = TopicPartition(f"{alias}.{topic}", 0)
    make(clusters.source, topic)
    records = transactions(clusters.source, topic, alias, 9)
    write(clusters.source, topic, range(10))
    commit(clusters.source, group, topic, 7)
    start_mirror(topic, groups=group, **ON, **KEEP)
    same(clusters, topic, remote.topic, records + 10)
    wait_until(lambda: committed(clusters.target, group) == {remote: 7}, "the position is the same")
    words = ["mirror", "status", "--source", clusters.source, "--target", clusters.target, "--source-alias", alias]
    rows = [line.split() for line in call(*words, "--topics", topic, "--offsets", "keep").out]
    end = str(read_all(clusters.source, topic, records + 10)[0][-1].offset + 1)
    assert [topic, "0", end, end, "0"] in rows
    assert any(row[:6] == [group, remote.topic, "0", "7", "7", "7"] for row in rows)


def test_a_topic_that_took_over_is_left_alone(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    """Consumers and producers have moved to the target; a mirror that still runs must not write there."""
    topic = f"moved-{alias}"
    remote = f"{alias}.{topic}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **KEEP)
    same(clusters, topic, remote, 5)
    mirror_source(clusters.target, remote, ConfigChange(MIRROR_SOURCE, operation=ConfigOperation.DELETE))
    write(clusters.target, remote, range(100, 103))
    write(clusters.source, topic, range(5, 8))
    assert f"{MIRROR_SOURCE}=''" in fails(mirror)
    (found,) = read_all(clusters.target, remote, 8).values()
    assert [record.value for record in found[5:]] == [b"v100", b"v101", b"v102"]


def test_a_source_that_was_created_again_is_noticed(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic = f"again-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **KEEP)
    same(clusters, topic, f"{alias}.{topic}", 5)
    mirror.stop()
    with Admin(clusters.client("source")) as admin:
        admin.delete_topics([topic])
        wait_until(lambda: topic not in admin.list_topics(), "the topic is gone")
    make(clusters.source, topic)
    write(clusters.source, topic, range(100, 103))
    remedy = f"Delete the topic {alias}.{topic} in the target to mirror it anew"
    mirror = start_mirror(topic, **KEEP)
    assert remedy in fails(mirror)
    # An older mirror has stored no ids. So has one whose source is older than Kafka 2.8.
    with Admin(clusters.client("target")) as admin:
        admin.delete_topics([mirror.settings.naming.offsets])
    assert "ends at offset 3 in the source and at 5 in the target" in fails(start_mirror(topic, **KEEP))
    write(clusters.source, topic, range(103, 110))
    assert "has another record at offset 4 in the target" in fails(start_mirror(topic, **KEEP))
    assert len(read_all(clusters.target, f"{alias}.{topic}", 5)[0]) == 5


def test_an_empty_topic_is_taken_and_one_with_records_is_not(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    empty, used = f"empty-{alias}", f"used-{alias}"
    for topic in (empty, used):
        make(clusters.source, topic)
        make(clusters.target, f"{alias}.{topic}")
        write(clusters.source, topic, range(5))
    write(clusters.target, f"{alias}.{used}", range(1))
    start_mirror(empty, **KEEP)
    same(clusters, empty, f"{alias}.{empty}", 5)
    # It is another mirror by its alias, so it does not share the work of the first one.
    assert "has records" in fails(start_mirror(used, **KEEP, tasks_max="8"))


def test_a_mirror_with_new_offsets_does_not_write_where_they_are_kept(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    topic = f"kept-{alias}"
    make(clusters.source, topic)
    write(clusters.source, topic, range(5))
    mirror = start_mirror(topic, **KEEP)
    same(clusters, topic, f"{alias}.{topic}", 5)
    mirror.stop()
    other = start_mirror(topic)
    wait_until(lambda: bool(other.held), "the target refuses it")
    assert (other.progress.restarts, other.stop()) == (0, None)
    same(clusters, topic, f"{alias}.{topic}", 5)


def test_identity_leaves_out_what_returns(clusters: Clusters, start_mirror: StartMirror, alias: str) -> None:
    topic, back = f"there-{alias}", f"back-{alias}"
    make(clusters.source, topic)
    make(clusters.target, back)
    write(clusters.source, topic, range(3))
    write(clusters.target, back, range(3))
    start_mirror(f".*-{alias}", **IDENTITY, **KEEP)
    same(clusters, topic, topic, 3)
    reverse = start_mirror(f".*-{alias}", reverse=True, **IDENTITY, **KEEP)
    wait_until(lambda: set(reverse.progress.partitions()) == {TopicPartition(back, 0)}, "the other topic is mirrored")
    assert returning_topics(reverse.settings) == set()
    assert located(read_all(clusters.source, back, 3)) == located(read_all(clusters.target, back, 3))


def test_later_topics_do_not_return_under_their_own_names(
    clusters: Clusters, start_mirror: StartMirror, alias: str
) -> None:
    later, last = f"later-{alias}", f"last-{alias}"
    start_mirror(f".*-{alias}", **IDENTITY, **KEEP)
    reverse = start_mirror(f".*-{alias}", reverse=True, **IDENTITY, **KEEP)
    # Without records: a mirror back could take the empty topic, which refuses producers then.
    make(clusters.source, later)
    with Admin(clusters.client("target")) as admin:
        wait_until(lambda: later in admin.list_topics(), "the topic is created")
    make(clusters.target, last)
    write(clusters.target, last, range(3))
    same(clusters, last, last, 3)
    write(clusters.source, later, range(3))
    same(clusters, later, later, 3)
    assert reverse.running


def test_processes_share_the_work(clusters: Clusters, start_mirror: StartMirror, alias: str, processes: int) -> None:
    topic = f"shared-{alias}"
    make(clusters.source, topic, 4)
    write(clusters.source, topic, range(100), None)
    mirrors = [start_mirror(topic, **KEEP) for _ in range(2)]
    wait_until(lambda: [len(each.progress.partitions()) for each in mirrors] == [2, 2], "each has two partitions")
    write(clusters.source, topic, range(100, 200), None)
    same(clusters, topic, f"{alias}.{topic}", 200)
    mirrors[0].stop()
    write(clusters.source, topic, range(200, 300), None)
    same(clusters, topic, f"{alias}.{topic}", 300)


def test_all_topics_are_asked_at_once_whether_they_are_empty(clusters: Clusters, alias: str) -> None:
    """Each question waits for leaders that do not answer."""
    names = [f"a-{alias}", f"b-{alias}", f"c-{alias}"]
    for name in names:
        make(clusters.target, f"{alias}.{name}", 2)
    silent = TopicPartition(f"{alias}.{names[1]}", 1)
    asked = []

    class Asked(LeaderlessPartitions):
        def ask(
            self,
            cluster: Cluster,
            timestamps: Mapping[TopicPartition, int],
            isolation_level: int = READ_UNCOMMITTED,
            of: Mapping[TopicPartition, TopicPartition] | None = None,
        ) -> dict[TopicPartition, OffsetAndTimestamp]:
            asked.append(set(timestamps))
            answering = {tp: at for tp, at in timestamps.items() if tp != silent}
            return super().ask(cluster, answering, isolation_level, of)

    with Admin(clusters.client("target")) as target:
        found, taken = adopt(settings_of(clusters, alias, ".*", replication_offsets="keep"), target, names, Asked())
    assert asked == [{TopicPartition(f"{alias}.{name}", number) for name in names for number in (0, 1)}]
    assert (found, sorted(taken)) == ({names[0]: True, names[2]: True}, [names[0], names[2]])
    now = [mirror_source(clusters.target, f"{alias}.{name}") for name in names]
    assert now == [alias, "", alias]


def test_positions_have_the_leader_epoch_of_the_source(
    clusters: Clusters, start_mirror: StartMirror, alias: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tp = TopicPartition(f"words-{alias}", 0)
    make(clusters.source, tp.topic)
    write(clusters.source, tp.topic, range(5))
    mirror = start_mirror(tp.topic, **KEEP)
    read_all(clusters.target, f"{alias}.{tp.topic}", 5)
    mirror.stop()
    with Admin(clusters.client("source")) as admin:
        epoch = list_offsets(admin.cluster, {tp: LATEST})[tp].leader_epoch
    sought: list[object] = []
    seek = Consumer.seek

    def noted(consumer: Consumer, partition: TopicPartition, position: int | OffsetAndMetadata) -> None:
        sought.extend([position] if partition == tp else [])
        seek(consumer, partition, position)

    monkeypatch.setattr(Consumer, "seek", noted)
    later = start_mirror(tp.topic, **KEEP)
    wait_until(lambda: tp in later.positions, "the mirror goes on")
    assert later.stop() is None
    assert epoch >= 0
    assert sought == [OffsetAndMetadata(5, epoch)]
