"""Test that MirrorMaker 2 goes on where a mirror of ours stopped, and the other way round, while records come."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.offsets import LATEST, list_offsets
from kafkalog.client.producer import Producer
from kafkalog.client.types import READ_COMMITTED, TopicPartition
from peers import require
from peers.brokers import kafka
from peers.process import Process
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, all_contents, read_all
from tests.kafkalog.mirror.housekeeping.support import ON, checkpoints, commit
from tests.kafkalog.mirror.writing import make
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.usefixtures("foreign_programs"), pytest.mark.exhaustive, pytest.mark.timeout(600)]

PARTITIONS = 2
STARTS_S = 180.0


class Writer:
    """Writes to all partitions in turn, until it is stopped."""

    def __init__(self, address: str, topic: str) -> None:
        self.count = 0
        self._address, self._topic = address, topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with Producer({"bootstrap.servers": self._address}) as producer:
            while not self._stop.wait(0.005):
                producer.send(self._topic, b"v%d" % self.count, b"k", partition=self.count % PARTITIONS)
                self.count += 1

    def stop(self) -> int:
        """Stop; return how many records were written."""
        self._stop.set()
        self._thread.join()
        return self.count


def mirrormaker(clusters: Clusters, topic: str, group: str, alias: str, directory: Path) -> Process:
    """Start MirrorMaker 2, which stores pairs of offsets where a mirror of ours does."""
    internal = ("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic")
    stores = ("offset.storage", "status.storage", "config.storage")
    lines = [
        f"clusters = {alias}, target",
        f"{alias}.bootstrap.servers = {clusters.source}",
        f"target.bootstrap.servers = {clusters.target}",
        f"{alias}->target.enabled = true",
        f"{alias}->target.topics = {topic}",
        f"{alias}->target.groups = {group}",
        f"target->{alias}.enabled = false",
        "offset-syncs.topic.location = target",
        "offset.flush.interval.ms = 1000",
        "emit.checkpoints.interval.seconds = 1",
        "refresh.groups.interval.seconds = 1",
        "emit.heartbeats.enabled = false",
        "replication.factor = 1",
        *(f"{each}.replication.factor = 1" for each in (*internal, *stores)),
    ]
    file = directory / "mm2.properties"
    file.write_text("".join(f"{line}\n" for line in lines))
    return Process(kafka.mirror_line(file), directory / "mirrormaker.log")


def test_each_goes_on_where_the_other_stopped(
    clusters: Clusters, start_mirror: StartMirror, alias: str, tmp_path: Path
) -> None:
    require(kafka.mirror_missing())
    topic, group = f"words-{alias}", f"readers-{alias}"
    remote = TopicPartition(f"{alias}.{topic}", 0)
    make(clusters.source, topic, PARTITIONS)
    writer = Writer(clusters.source, topic)
    source, target = Admin(clusters.client("source")), Admin(clusters.client("target"))

    def ends(admin: Admin, name: str) -> dict[int, int]:
        wanted = {TopicPartition(name, number): LATEST for number in range(PARTITIONS)}
        return {tp.partition: each.offset for tp, each in list_offsets(admin.cluster, wanted, READ_COMMITTED).items()}

    def grows(by: int = 100) -> None:
        """Wait until each partition of the target has got so many records."""
        before = ends(target, remote.topic)
        wait_until(
            lambda: all(end >= before[number] + by for number, end in ends(target, remote.topic).items()),
            "the mirror writes",
            STARTS_S,
        )

    def group_follows() -> None:
        """Wait until a group that has read all so far has a position in the target, which must not skip a record."""
        at = ends(source, topic)[0]
        commit(clusters.source, group, topic, at)
        wait_until(
            lambda: checkpoints(clusters, alias, group).get(remote, (0, 0))[0] == at, "it is translated", STARTS_S
        )

    try:
        for _ in range(2):
            ours = start_mirror(topic, groups=group, **ON)
            wait_until(lambda: remote.topic in target.list_topics(), "the topic is created")
            grows()
            group_follows()
            assert ours.stop() is None
            with mirrormaker(clusters, topic, group, alias, tmp_path) as theirs:
                grows()
                group_follows()
                theirs.stop()
        ours = start_mirror(topic, groups=group, **ON)
        count = writer.stop()
        there = read_all(clusters.source, topic, count)
        found = read_all(clusters.target, remote.topic, count)
    finally:
        writer.stop()
        source.close()
        target.close()
    assert all_contents(found) == all_contents(there)
    upstream, downstream = checkpoints(clusters, alias, group)[remote]
    # What the group reads next in the target is not behind what it would read next in the source.
    assert found[0][upstream].offset >= downstream > 0
