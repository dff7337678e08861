"""Test mirrors whose target has a partition that takes nothing for a time: it waits alone, and skips nothing."""

from __future__ import annotations

from collections.abc import Collection

import pytest

from kafkalog.client.metadata import TopicMetadata
from kafkalog.client.producer.sender.topic_metadata import Topics
from kafkalog.client.types import TopicPartition
from kafkalog.mirror.copying import held
from tests.kafkalog.mirror.conftest import Clusters, StartMirror, read_all
from tests.kafkalog.mirror.writing import make, write
from tests.support.waiting import wait_until

_fetch = Topics._fetch
TIMES = {"target.producer.request.timeout.ms": "1000", "target.producer.delivery.timeout.ms": "2000"}


@pytest.fixture
def without_leader(monkeypatch: pytest.MonkeyPatch) -> set[TopicPartition]:
    """Return a set of partitions, of which producers find no leader."""
    without: set[TopicPartition] = set()

    def fetch(
        topics: Topics, needed: Collection[str], others: Collection[str], limit: float
    ) -> dict[str, TopicMetadata]:
        found = _fetch(topics, needed, others, limit)
        known = {TopicPartition(topic.name, number) for topic in found.values() for number in topic.partitions}
        for name, number in without & known:
            partitions = found[name].partitions
            lacking = partitions[number]._replace(leader=-1)
            found[name] = found[name]._replace(partitions={**partitions, number: lacking})
        return found

    monkeypatch.setattr(Topics, "_fetch", fetch)
    monkeypatch.setattr(held, "PAUSE_S", 0.2)
    monkeypatch.setattr(held, "LONGEST_PAUSE_S", 0.4)
    return without


def test_the_others_are_mirrored(
    clusters: Clusters,
    start_mirror: StartMirror,
    alias: str,
    caplog: pytest.LogCaptureFixture,
    without_leader: set[TopicPartition],
) -> None:
    topic = f"words-{alias}"
    well, lacking = (TopicPartition(topic, number) for number in (0, 1))
    make(clusters.source, topic, 2)
    make(clusters.target, f"{alias}.{topic}", 2)
    for tp in well, lacking:
        write(clusters.source, topic, range(5), tp.partition)
    without_leader.add(TopicPartition(f"{alias}.{topic}", lacking.partition))
    mirror = start_mirror(topic, tasks_max="1", **TIMES)
    wait_until(lambda: mirror.held == {lacking}, "it is held")
    wait_until(lambda: mirror.positions.get(well) == 5, "the other one is mirrored")
    told = f"{lacking} is held at offset 0 of the source, because the target does not take the record batch there now"
    wait_until(lambda: caplog.text.count(told) > 1, "it is tried again")
    write(clusters.source, topic, range(5, 8), well.partition)
    wait_until(lambda: mirror.positions.get(well) == 8, "more of the other one is mirrored")
    assert mirror.progress.restarts == 0
    without_leader.clear()
    found = read_all(clusters.target, f"{alias}.{topic}", 13)
    assert [record.value for record in found[lacking.partition]] == [b"v%d" % number for number in range(5)]
    wait_until(lambda: not mirror.held, "it is held no more")
    assert (mirror.progress.restarts, mirror.stop()) == (0, None)


def test_a_target_that_takes_nothing_at_all_is_waited_for(
    clusters: Clusters, start_mirror: StartMirror, alias: str, without_leader: set[TopicPartition]
) -> None:
    """Then no partition is to blame: another worker begins, and tries all of them."""
    topic = f"words-{alias}"
    make(clusters.source, topic, 2)
    make(clusters.target, f"{alias}.{topic}", 2)
    for number in (0, 1):
        write(clusters.source, topic, range(5), number)
        without_leader.add(TopicPartition(f"{alias}.{topic}", number))
    mirror = start_mirror(topic, tasks_max="1", **TIMES)
    wait_until(lambda: mirror.progress.restarts > 0, "a worker has failed")
    assert not mirror.held
    without_leader.clear()
    read_all(clusters.target, f"{alias}.{topic}", 10)
    assert mirror.stop() is None
