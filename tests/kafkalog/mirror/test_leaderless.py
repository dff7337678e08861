"""Test mirrors of partitions of which one has no leader: it waits alone."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.metadata import Leader
from kafkalog.client.types import TopicPartition
from kafkalog.mirror import rechecks
from kafkalog.mirror.copying.positions import leaderless
from kafkalog.protocol.errors import LeaderNotAvailableError
from tests.kafkalog.mirror.conftest import IDENTITY, Clusters, StartMirror, read_all
from tests.kafkalog.mirror.keeping.kept import KEEP
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until

_leaders_now = Cluster.leaders_now


@pytest.fixture
def without_leader(monkeypatch: pytest.MonkeyPatch) -> set[TopicPartition]:
    """Return a set of partitions, of which the mirrors do not know a leader when they ask for offsets."""
    without: set[TopicPartition] = set()

    def leaders_now(
        cluster: Cluster, partitions: Collection[TopicPartition], deadline: float | None = None
    ) -> dict[TopicPartition, Leader | Exception]:
        found = _leaders_now(cluster, partitions, deadline)
        return found | {tp: LeaderNotAvailableError(f"partition {tp} has no leader") for tp in without & found.keys()}

    monkeypatch.setattr(Cluster, "leaders_now", leaders_now)
    monkeypatch.setattr(leaderless, "PATIENCE_S", 0.5)
    monkeypatch.setattr(rechecks, "CHECK_S", 0.2)
    return without


@pytest.mark.parametrize(
    ("more", "side"),
    [(KEEP, "source"), (KEEP, "target"), (IDENTITY, "source")],
    ids=["keep, source", "keep, target", "identity"],
)
def test_the_others_are_mirrored(
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    without_leader: set[TopicPartition],
    more: dict[str, str],
    side: str,
) -> None:
    topic = f"words-{alias}"
    remote = topic if more is IDENTITY else f"{alias}.{topic}"
    make(clusters.source, topic, 2)
    for number in (0, 1):
        write(clusters.source, topic, range(5), number)
    if more is KEEP:
        # Nothing is asked of the source for an empty partition of the target.
        mirror = start_mirror(topic, **more)
        read_all(clusters.target, remote, 10)
        assert mirror.stop() is None
        for number in (0, 1):
            write(clusters.source, topic, range(5), number)
    before = 10 if more is KEEP else 0
    lacking = TopicPartition(topic if side == "source" else remote, 1)
    without_leader.add(lacking)
    mirror = start_mirror(topic, **more)
    other, end = TopicPartition(topic, 0), (before + 10) // 2
    wait_until(lambda: [each.next_offset for each in mirror.progress.partitions().values()] == [end], "it is mirrored")
    assert mirror.progress.partitions().keys() == {other}
    said = re.compile(f"{TopicPartition(topic, 1)} is left out until its leader answers: .*LEADER_NOT_AVAILABLE")
    wait_until(lambda: said.search(caplog.text) is not None, "it is said")
    assert mirror.progress.restarts == 0
    without_leader.clear()
    assert len(read_all(clusters.target, remote, before + 10)[1]) == end
    assert mirror.stop() is None


def test_a_partition_that_begins_at_its_end_does_so_when_it_has_a_leader(
    clusters: Clusters, start_mirror: StartMirror, alias: str, without_leader: set[TopicPartition]
) -> None:
    topic = f"late-{alias}"
    make(clusters.source, topic, 2)
    for number in (0, 1):
        write(clusters.source, topic, range(5), number)
    without_leader.add(TopicPartition(topic, 1))
    mirror = start_mirror(topic, auto_offset_reset="latest")
    wait_until(lambda: set(mirror.progress.partitions()) == {TopicPartition(topic, 0)}, "the other one is mirrored")
    without_leader.clear()
    wait_until(lambda: len(mirror.progress.partitions()) == 2, "both are mirrored")
    for number in (0, 1):
        write(clusters.source, topic, range(5, 7), number)
    found = read_all(clusters.target, f"{alias}.{topic}", 4)
    assert {number: [record.value for record in records] for number, records in found.items()} == {
        0: [b"v5", b"v6"],
        1: [b"v5", b"v6"],
    }
