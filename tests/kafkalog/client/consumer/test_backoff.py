"""Test that pauses grow while tries fail, and are short again when something has changed (KIP-580)."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer import ConsumerConfig
from kafkalog.client.consumer.classic import coordinator
from kafkalog.client.consumer.classic.coordinator import ClassicCoordinator
from kafkalog.client.consumer.classic.join import JoinRefusedError
from kafkalog.client.consumer.fetcher import fetcher, metadata_watcher
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.consumer.fetcher.fetcher import Fetcher
from kafkalog.client.consumer.fetcher.metadata_watcher import MetadataWatcher
from kafkalog.client.consumer.group.generation import Next
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.subscription import SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.errors import ConnectionFailedError
from kafkalog.client.metadata import Broker, ClusterMetadata, Leader, PartitionMetadata, TopicMetadata
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import RebalanceInProgressError
from tests.kafkalog.client.consumer.support import DEADLINE_S

TP = TopicPartition("t", 0)
CONFIG = ConsumerConfig.from_dict(
    {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "retry.backoff.ms": 100, "retry.backoff.max.ms": 1000}
)
FAILURE = ConnectionFailedError("nobody is there")
PAUSES = [0.1, 0.1, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0]


class Clock:
    """The time that a test decides."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        for module in (coordinator, fetcher, metadata_watcher):
            monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def pass_until(self, until: float) -> float:
        """Let the time come; return how long that takes."""
        pause, self.now = until - self.now, until
        return round(pause, 6)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(random, "uniform", lambda least, most: 1.0)
    return Clock(monkeypatch)


class Described:
    """Takes the place of a cluster, whose leader and failures a test gives."""

    def __init__(self) -> None:
        self.epoch = 1
        self.failure: Exception | None = None
        self.answered = threading.Semaphore(0)

    def metadata(self, topics: frozenset[str], **given: Any) -> ClusterMetadata:
        if self.failure is not None:
            raise self.failure
        partitions = {0: PartitionMetadata(0, 1, self.epoch, (), (), ())}
        return ClusterMetadata(topics={name: TopicMetadata(name, UUID(int=1), False, partitions) for name in topics})

    def known_leader(self, tp: TopicPartition) -> Leader:
        return Leader(Broker(1, "127.0.0.1", 1), self.epoch)

    def forget(self, topics: Any) -> None:
        pass

    def connect(self, broker: Broker) -> None:
        raise FAILURE


class Watched:
    """A watcher of the metadata of one topic, of which some leader is always unknown."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.cluster = clock, Described()
        self.subscription = SubscriptionState()
        self.subscription.subscribe(["t"])
        self.watcher = MetadataWatcher(
            *(CONFIG, cast(Cluster, self.cluster), self.subscription, Monitor(), lambda found: None),
            self.cluster.answered.release,
        )

    def ask(self) -> float:
        """Ask for metadata, and have the answer noted; return how long it is until the next request."""
        self.watcher.step()
        assert self.cluster.answered.acquire(timeout=DEADLINE_S)
        with suppress(ConnectionFailedError):
            self.watcher.step()
        self.watcher.soon()
        return self.clock.pass_until(self.watcher.next_time())


@pytest.fixture
def watched(clock: Clock) -> Iterator[Watched]:
    made = Watched(clock)
    yield made
    made.watcher.stop()


@pytest.mark.parametrize("failing", [False, True])
def test_metadata_that_does_not_help_is_asked_for_less_and_less_often(watched: Watched, failing: bool) -> None:
    assert watched.ask() == 0.1
    watched.cluster.failure = FAILURE if failing else None
    assert [watched.ask() for _ in PAUSES] == PAUSES
    watched.cluster.failure = None
    watched.cluster.epoch = 2
    assert [watched.ask() for _ in range(2)] == [0.1, 0.1], "another leader was found"


def test_metadata_is_asked_for_at_once_where_something_new_is_wanted(watched: Watched) -> None:
    assert [watched.ask() for _ in range(9)][-1] == 1.0
    watched.subscription.subscribe(["t", "u"])
    assert watched.ask() == 0.1
    assert [watched.ask() for _ in range(9)][-1] == 1.0
    watched.watcher.refresh()
    assert watched.watcher.next_time() == 0.0
    assert watched.ask() == 0.1


def test_metadata_that_has_become_old_was_not_fruitless(watched: Watched) -> None:
    assert watched.ask() == 0.1
    for _ in range(9):
        watched.watcher.step()
        assert watched.cluster.answered.acquire(timeout=DEADLINE_S)
        watched.watcher.step()
        assert watched.clock.pass_until(watched.watcher.next_time()) == CONFIG.client.metadata_max_age
    watched.watcher.soon()
    assert [watched.ask() for _ in range(2)] == [0.1, 0.1]


def test_a_partition_that_fails_is_asked_for_less_and_less_often(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    subscription, cluster = SubscriptionState(), Described()
    subscription.assign_manually([TP])
    state = subscription.state(TP)
    state.move(FetchPosition(0))
    made = Fetcher(CONFIG, cast(Cluster, cluster), subscription, Monitor(), lambda found: None)
    # Nothing is sent.
    monkeypatch.setattr(made._leaders, "idle", lambda broker: False)
    try:
        made._ask()
        pauses = []
        for _ in PAUSES:
            made._partition_failed(state, state.version, FAILURE)
            pauses.append(clock.pass_until(state.retry_at))
        assert pauses == PAUSES
        made._partition_failed(state, state.version, FAILURE)
        made._ask()
        assert state.retry_at == clock.now + 1.0, "the leader is the same"
        cluster.epoch = 2
        made._ask()
        assert state.fetchable(clock.now), "another leader was found"
        made._partition_failed(state, state.version, FAILURE)
        assert clock.pass_until(state.retry_at) == 0.1
    finally:
        made._leaders.close()
        made._watcher.stop()
        made._waker.close()


def test_a_group_whose_coordinator_is_away_is_joined_less_and_less_often(clock: Clock) -> None:
    made = ClassicCoordinator(
        *(CONFIG, Cluster(CONFIG.client), SubscriptionState(), Monitor(), lambda: None, ConsumerInterceptors(CONFIG))
    )

    def pause(error: Exception) -> float:
        made._join_failed(error)
        return clock.pass_until(made._join_after)

    assert [pause(FAILURE) for _ in PAUSES] == PAUSES
    refused = JoinRefusedError(Next.BACK_OFF, RebalanceInProgressError("not now"))
    assert [pause(refused) for _ in PAUSES] == [0.1] * len(PAUSES), "it is there"
    assert [pause(FAILURE) for _ in PAUSES] == PAUSES
