"""Two clusters, and mirrors between them in this process."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import NamedTuple

import pytest

from kafkalog.client.admin import Admin
from kafkalog.client.consumer import Consumer
from kafkalog.client.types import ConsumerRecord, TopicPartition
from kafkalog.mirror import supervisor
from kafkalog.mirror.copying.progress import Progress
from kafkalog.mirror.settings import MirrorSettings
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.waiting import wait_until

AT_ONCE = {"group.initial.rebalance.delay.ms": "0"}
QUICK = {
    "offset.flush.interval.ms": "50",
    "refresh.topics.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "emit.heartbeats.enabled": "false",
    "heartbeats.replication.enabled": "false",
    "emit.checkpoints.enabled": "false",
}
IDENTITY = {"replication_policy_class": "identity"}


class Clusters(NamedTuple):
    """The addresses of two clusters."""

    source: str
    target: str

    def client(self, side: str) -> dict[str, str]:
        return {"bootstrap.servers": getattr(self, side)}


@pytest.fixture(scope="session")
def clusters(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    """Start two clusters of one broker for all tests; topics and aliases are each test's own."""
    directory = tmp_path_factory.mktemp("mirror")
    with KafkalogBroker(directory / "a", AT_ONCE) as source, KafkalogBroker(directory / "b", AT_ONCE) as target:
        yield Clusters(source.bootstrap, target.bootstrap)


def settings_of(clusters: Clusters, alias: str, topics: str, *, reverse: bool = False, **more: str) -> MirrorSettings:
    """Return the settings of a quick mirror, or of that of the other direction; `more` has `_` in place of dots."""
    properties = {**QUICK, "topics": topics} | {key.replace("_", "."): text for key, text in more.items()}
    names = ("target", alias) if reverse else (alias, "target")
    clients = clusters.client("source"), clusters.client("target")
    settings, unknown = MirrorSettings.of(properties, *names, clients[::-1] if reverse else clients)
    assert unknown == []
    return settings


class Mirror:
    """A mirror in threads of this process; `late_starts` are what a worker before has left."""

    def __init__(self, settings: MirrorSettings, late_starts: Mapping[TopicPartition, int] | None = None) -> None:
        self.settings = settings
        self.progress = Progress()
        self.progress.late_starts |= late_starts or {}
        self._stop = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            supervisor.run(self.settings, self.progress, self._stop)
        except Exception as error:
            self._failure = error

    @property
    def running(self) -> bool:
        return self._thread.is_alive()

    @property
    def positions(self) -> dict[TopicPartition, int | None]:
        return {tp: each.next_offset for tp, each in self.progress.partitions().items()}

    @property
    def held(self) -> set[TopicPartition]:
        return {tp for tp, each in self.progress.partitions().items() if each.held}

    def stop(self) -> Exception | None:
        """Stop; return the error that ended it, if one did."""
        self._stop.set()
        self._thread.join()
        return self._failure


StartMirror = Callable[..., Mirror]


@pytest.fixture
def alias() -> str:
    """Return an alias of the source that no other test has."""
    return f"s{uuid.uuid4().hex[:8]}"


@pytest.fixture
def start_mirror(clusters: Clusters, alias: str) -> Iterator[StartMirror]:
    """Start mirrors with properties, perhaps from or to the address of another cluster; stop them after the test."""
    with ExitStack() as stack:

        def start(topics: str, *, reverse: bool = False, source: str = "", target: str = "", **more: str) -> Mirror:
            between = Clusters(source or clusters.source, target or clusters.target)
            mirror = Mirror(settings_of(between, alias, topics, reverse=reverse, **more))
            stack.callback(mirror.stop)
            return mirror

        yield start


def read_all(address: str, topic: str, count: int) -> dict[int, list[ConsumerRecord]]:
    """Read `count` committed records of a topic, and check that there are no more; return them by partition."""
    properties = {
        "bootstrap.servers": address,
        "isolation.level": "read_committed",
        "auto.offset.reset": "earliest",
        "metadata.max.age.ms": "200",
    }
    with Admin(properties) as admin:
        wait_until(lambda: topic in admin.list_topics(), f"topic {topic} exists")
    found: list[ConsumerRecord] = []
    with Consumer(properties) as consumer:
        consumer.assign(consumer.partitions_for(topic))

        def enough() -> bool:
            found.extend(consumer.poll(0.2))
            return len(found) >= count

        wait_until(enough, f"{count} records in {topic}")
        ends = consumer.end_offsets(consumer.assignment())
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            found.extend(consumer.poll(0.2))
    assert len(found) == count
    by_partition: dict[int, list[ConsumerRecord]] = {}
    for record in found:
        by_partition.setdefault(record.partition, []).append(record)
    return by_partition


def contents(records: list[ConsumerRecord]) -> list[tuple[object, ...]]:
    """Return what a mirror keeps of records."""
    return [(each.timestamp, each.key, each.value, each.headers) for each in records]


def all_contents(found: Mapping[int, list[ConsumerRecord]]) -> dict[int, list[tuple[object, ...]]]:
    """Return what a mirror keeps of records, by partition."""
    return {number: contents(records) for number, records in found.items()}


def committed(address: str, group: str) -> dict[TopicPartition, int]:
    """Return the committed offsets of a group."""
    with Admin({"bootstrap.servers": address}) as admin:
        return {tp: each.offset for tp, each in admin.groups.offsets([group])[group].items()}
