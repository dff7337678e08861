"""A group that goes over to the target and back, and how far the mirror is with it."""

from __future__ import annotations

from collections import Counter

from kafkalog.client.consumer import Consumer
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.mirror.internal_topics.stored import read_checkpoints, read_marks
from kafkalog.mirror.settings import MirrorSettings
from tests.kafkalog.mirror.conftest import Clusters, Mirror, committed, read_all
from tests.kafkalog.mirror.writing import PARTITIONS, Writer, make
from tests.support.waiting import wait_until

LEAST = 300
"""The least number of records in the source before the group goes over."""

Key = tuple[object, object]
"""The part of a record that tells it from all others."""

IN_SOURCE, IN_TARGET = (60, 13), (90, 17)
"""Number of records that the group reads and commits there, and number that it then reads without a commit."""


class Application:
    """A group of one consumer, wherever it runs: what it has processed, and of that what it had not committed."""

    def __init__(self, group: str) -> None:
        self.group = group
        self.processed: Counter[Key] = Counter()
        self.uncommitted: set[Key] = set()

    def run(self, address: str, topic: str, to_commit: int, more: int) -> set[Key]:
        """Process and commit so many records, then more without a commit, and stop; return the committed ones."""
        with self._consumer(address) as consumer:
            consumer.subscribe([topic])
            committed = self._process(consumer, to_commit)
            consumer.commit()
            self.uncommitted |= self._process(consumer, more)
        return committed

    def catch_up(self, address: str, topic: str, more: int) -> None:
        """Process and commit all records up to the present end, then more without a commit, and stop."""
        with self._consumer(address) as consumer:
            consumer.subscribe([topic])
            ends = consumer.end_offsets(consumer.partitions_for(topic))

            def at_the_end() -> bool:
                self.processed.update(map(_key, consumer.poll(0.2)))
                return consumer.assignment() == ends.keys() and all(
                    consumer.position(tp) >= end for tp, end in ends.items()
                )

            wait_until(at_the_end, "the group is at the end")
            consumer.commit()
            self.uncommitted |= self._process(consumer, more)

    def is_at(self, address: str, topic: str) -> bool:
        """Tell whether the group's positions there are after all records that it has committed anywhere."""
        before: set[Key] = set()
        positions = committed(address, self.group)
        with self._consumer(address) as consumer:
            consumer.assign(positions)
            consumer.seek_to_beginning()
            while any(consumer.position(tp) < end for tp, end in positions.items()):
                for each in consumer.poll(0.2):
                    if each.offset < positions[TopicPartition(each.topic, each.partition)]:
                        before.add(_key(each))
        return before >= self.processed.keys() - self.uncommitted

    def finish(self, address: str, topic: str, count: int) -> None:
        """Process until no record is missing. Check that it has processed none twice but those that it may."""
        there = {_key(each) for found in read_all(address, topic, count).values() for each in found}

        def has_all() -> bool:
            self.processed.update(map(_key, consumer.poll(0.2)))
            return self.processed.keys() >= there

        with self._consumer(address) as consumer:
            consumer.subscribe([topic])
            wait_until(has_all, "the group has processed all records")
        assert self.processed.keys() == there
        assert {record for record, times in self.processed.items() if times > 1} <= self.uncommitted

    def check(self, address: str, topic: str, count: int) -> None:
        """Check that it has processed all records, and those twice that it had not committed, and no others."""
        there = [each for found in read_all(address, topic, count).values() for each in found]
        assert self.processed.keys() == set(map(_key, there))
        assert {record for record, times in self.processed.items() if times > 1} == self.uncommitted

    def _consumer(self, address: str) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": address,
                "group.id": self.group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": "false",
            }
        )

    def _process(self, consumer: Consumer, count: int) -> set[Key]:
        found: list[ConsumerRecord] = []

        def enough() -> bool:
            if len(found) < count:
                found.extend(consumer.poll(0.2, count - len(found)))
            return len(found) >= count

        wait_until(enough, f"{count} records for the group")
        done = list(map(_key, found))
        self.processed.update(done)
        return set(done)


class GroupDrill:
    """A topic, and a group that reads it in the source, in the target, and in the source again.

    Args:
        clusters: The source and the target.
        alias: The alias of the source.
        naming: How the mirror names topics (`replication.policy.class`).

    Attributes:
        topic: The topic in the source.
        group: The group's name.
    """

    def __init__(self, clusters: Clusters, alias: str, naming: str) -> None:
        self.topic, self.group = f"words-{alias}", f"readers-{alias}"
        self._clusters = clusters
        self._remote = self.topic if naming == "identity" else f"{alias}.{self.topic}"
        self._application = Application(self.group)
        self._count = 0
        make(clusters.source, self.topic, PARTITIONS)

    def write(self, least: int = LEAST, seed: int = 7) -> None:
        """Write transactions until so many records of them are committed; each time with another seed."""
        writer = Writer(self._clusters.source, self.topic, seed)
        wait_until(lambda: writer.committed >= least, "records are written")
        self._count += writer.stop()

    def read_in_source(self, mirror: Mirror) -> None:
        """Let the group read some records, and wait until the target has all of them and the group's positions."""
        self._application.run(self._clusters.source, self.topic, *IN_SOURCE)
        wait_until(lambda: _has_all(mirror), "the target has all records")
        wait_until(
            lambda: is_there(mirror.settings, self._clusters, self.group), "the group's positions are in the target"
        )

    def read_in_target(self) -> None:
        """Let the group go on in the target."""
        self._application.run(self._clusters.target, self._remote, *IN_TARGET)

    def read_the_rest(self, mirror: Mirror) -> None:
        """Wait until the group's positions are back, let it read the rest in the source, and check what it has read."""
        wait_until(lambda: is_back(mirror.settings, self._clusters, self.group), "the group's positions are back")
        rest = self._count - IN_SOURCE[0] - IN_TARGET[0]
        self._application.run(self._clusters.source, self.topic, rest, 0)
        self._application.check(self._clusters.source, self.topic, self._count)


def _key(record: ConsumerRecord) -> Key:
    return record.key, record.value


def _has_all(mirror: Mirror) -> bool:
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
