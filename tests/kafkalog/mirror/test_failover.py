"""Drills: a group goes over to the target when the source is killed, and back when it is there again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from kafkalog.client.consumer import Consumer
from kafkalog.client.types import ConsumerRecord
from kafkalog.mirror.internal_topics.stored import read_checkpoints, read_marks
from kafkalog.mirror.settings import MirrorSettings
from tests.kafkalog.mirror.conftest import AT_ONCE, Clusters, Mirror, StartMirror, committed, read_all
from tests.kafkalog.mirror.housekeeping.test_checkpoints import ON
from tests.kafkalog.mirror.test_crash import PARTITIONS, Writer
from tests.kafkalog.mirror.test_mirror import make
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

LEAST = 300
"""How many records there are in the source before it is killed, at the least."""


class Drill(NamedTuple):
    """A source that can be killed, and a target."""

    source: KafkalogBroker
    target: KafkalogBroker


@pytest.fixture
def drill(processes: None, tmp_path: Path) -> Iterator[Drill]:
    with KafkalogBroker(tmp_path / "a", AT_ONCE) as source, KafkalogBroker(tmp_path / "b", AT_ONCE) as target:
        yield Drill(source, target)


@pytest.fixture
def clusters(drill: Drill) -> Clusters:
    return Clusters(drill.source.bootstrap, drill.target.bootstrap)


class Application:
    """A group of one consumer, wherever it runs: what it has processed, and of that what it had not committed."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.processed: Counter[tuple[object, object]] = Counter()
        self.uncommitted: set[tuple[object, object]] = set()

    def run(self, address: str, topic: str, to_commit: int, more: int) -> None:
        """Process and commit so many records, then more of them without a commit, and stop."""
        properties = {
            "bootstrap.servers": address,
            "group.id": self.group,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
        with Consumer(properties) as consumer:
            consumer.subscribe([topic])
            self._process(consumer, to_commit)
            consumer.commit()
            self.uncommitted |= self._process(consumer, more)

    def check(self, address: str, topic: str, count: int) -> None:
        """Check that it has processed all records, and those twice that it had not committed, and no others."""
        there = [each for found in read_all(address, topic, count).values() for each in found]
        assert self.processed.keys() == {(each.key, each.value) for each in there}
        assert {record for record, times in self.processed.items() if times > 1} == self.uncommitted

    def _process(self, consumer: Consumer, count: int) -> set[tuple[object, object]]:
        found: list[ConsumerRecord] = []

        def enough() -> bool:
            found.extend(consumer.poll(0.2, count - len(found)))
            return len(found) >= count

        wait_until(enough, f"{count} records for the group")
        done = [(each.key, each.value) for each in found]
        self.processed.update(done)
        return set(done)


def has_all(mirror: Mirror) -> bool:
    partitions = mirror.progress.partitions().values()
    return len(partitions) == PARTITIONS and all(each.lag == 0 for each in partitions)


def is_there(settings: MirrorSettings, clusters: Clusters, group: str) -> bool:
    """Tell whether the target has the group's positions of the source."""
    checkpoints = read_checkpoints(settings).get(group, {})
    positions = committed(clusters.source, group)
    return sorted(positions.values()) == sorted(each.upstream for each in checkpoints.values()) and committed(
        clusters.target, group
    ) == {tp: each.downstream for tp, each in checkpoints.items()}


def is_back(settings: MirrorSettings, clusters: Clusters, group: str) -> bool:
    """Tell whether the mirror has nothing to bring back."""
    marks = read_marks(settings)
    return all(marks.get((group, tp), -1) >= offset for tp, offset in committed(clusters.target, group).items())


@pytest.mark.parametrize("mirror_dies", [False, True], ids=["", "the mirror, too"])
@pytest.mark.parametrize("naming", ["default", "identity"])
@pytest.mark.parametrize("offsets", ["translate", "keep"])
def test_a_group_goes_over_and_back(
    drill: Drill,
    start_mirror: StartMirror,
    alias: str,
    clusters: Clusters,
    offsets: str,
    naming: str,
    mirror_dies: bool,
) -> None:
    """It misses nothing, and repeats at most what it had not committed."""
    topic, app = f"words-{alias}", Application(f"readers-{alias}")
    remote = topic if naming == "identity" else f"{alias}.{topic}"
    properties = {"groups": app.group, "replication_offsets": offsets, "replication_policy_class": naming, **ON}
    make(clusters.source, topic, PARTITIONS)
    mirror = start_mirror(topic, **properties)
    writer = Writer(clusters.source, topic)
    wait_until(lambda: writer.committed >= LEAST, "records are written")
    count = writer.stop()
    app.run(clusters.source, topic, 60, 13)
    wait_until(lambda: has_all(mirror), "the target has all records")
    wait_until(lambda: is_there(mirror.settings, clusters, app.group), "the group's positions are in the target")

    drill.source.kill()
    if mirror_dies:
        mirror.stop()
    app.run(clusters.target, remote, 90, 17)

    drill.source.start()
    if mirror_dies:
        mirror = start_mirror(topic, **properties)
    writer = Writer(clusters.source, topic, seed=8)
    wait_until(lambda: writer.committed >= LEAST // 2, "more records are written")
    count += writer.stop()
    wait_until(lambda: is_back(mirror.settings, clusters, app.group), "the group's positions are back")
    app.run(clusters.source, topic, count - 60 - 90, 0)

    app.check(clusters.source, topic, count)
