"""Tests of when the steps of a poll are due: an idle poll waits, and no requested step is forgotten."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer import ConsumerConfig
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.consumer.fetcher.metadata_watcher import MetadataWatcher
from kafkalog.client.consumer.group.abstract_coordinator import AbstractCoordinator
from kafkalog.client.consumer.group.commits import Commits
from kafkalog.client.consumer.group.group_requests import CommitAnswer
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.kip848.coordinator import Kip848Coordinator
from kafkalog.client.consumer.kip848.heartbeat import Heartbeat
from kafkalog.client.consumer.kip848.member import State, TopicIdPartition, topic_partitions
from kafkalog.client.consumer.offsets.position_reset import PositionReset
from kafkalog.client.consumer.subscription import SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.metadata import ClusterMetadata, TopicMetadata
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from tests.kafkalog.client.consumer.support import DEADLINE_S, Noting

TP = TopicPartition("t", 0)
OTHER = TopicPartition("t", 1)
CONFIG = ConsumerConfig.from_dict(
    {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "auto.offset.reset": "earliest", "retry.backoff.ms": 1}
)
FOREVER = float("inf")
Committed = dict[TopicPartition, OffsetAndMetadata]


# Committed offsets


class Asked:
    """Takes the place of a coordinator, whose answers a test gives."""

    def __init__(self) -> None:
        self.asked: list[list[TopicPartition]] = []
        self.answers: list[Future[Committed]] = []

    def begin_fetching_offsets(self, partitions: Collection[TopicPartition], deadline: float) -> Future[Committed]:
        self.asked.append(sorted(partitions))
        self.answers.append(Future())
        return self.answers[-1]


def beginnings(subscription: SubscriptionState, coordinator: Asked) -> PositionReset:
    return PositionReset(CONFIG, cast(AbstractCoordinator, coordinator), subscription, Monitor(), lambda: None)


@pytest.mark.parametrize("meanwhile", ["seek", "revoke"])
@pytest.mark.parametrize("answer", ["offsets", "an error"])
def test_committed_offsets_that_nobody_waits_for(meanwhile: str, answer: str) -> None:
    subscription, coordinator = SubscriptionState(), Asked()
    subscription.assign_manually([TP])
    made = beginnings(subscription, coordinator)
    assert made.due()
    made.step()
    if meanwhile == "seek":
        subscription.state(TP).move(FetchPosition(5))
    else:
        subscription.assign([])
    if answer == "offsets":
        coordinator.answers[0].set_result({TP: OffsetAndMetadata(3)})
    else:
        coordinator.answers[0].set_exception(PermissionError("not allowed"))
    assert not made.due(), "or consume() would return early"
    made.step()
    assert (made.due(), made.next_time()) == (False, FOREVER)
    if meanwhile == "seek":
        assert subscription.state(TP).position == FetchPosition(5)
    # Those that are assigned later are asked for.
    subscription.assign([*subscription.assigned, OTHER])
    assert made.due()
    made.step()
    assert coordinator.asked == [[TP], [OTHER]]
    coordinator.answers[1].set_result({OTHER: OffsetAndMetadata(7)})
    assert made.due()
    made.step()
    assert subscription.state(OTHER).position == FetchPosition(7)
    assert (made.due(), made.next_time()) == (False, FOREVER)


def test_partitions_that_are_assigned_while_others_are_looked_up() -> None:
    subscription, coordinator = SubscriptionState(), Asked()
    subscription.assign_manually([TP])
    made = beginnings(subscription, coordinator)
    made.step()
    subscription.assign([OTHER])
    made.step()
    assert (made.due(), made.next_time(), coordinator.asked) == (False, FOREVER, [[TP]])
    coordinator.answers[0].set_result({TP: OffsetAndMetadata(3)})
    while len(coordinator.asked) == 1:
        assert made.due()
        made.step()
    assert coordinator.asked == [[TP], [OTHER]]


# Members of the consumer protocol, whose commit before a rebalance takes a while

TOPICS = {name: UUID(int=number) for number, name in enumerate("abc", 1)}


class Reconciled:
    """A member that has partition 0 of topic a, read to offset 3; heartbeats are answered, and commits held back."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.subscription, self.looks = SubscriptionState(), 0
        self.subscription.subscribe(TOPICS)
        config = ConsumerConfig.from_dict(
            {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "group.protocol": "consumer", "retry.backoff.ms": 1}
        )
        self.made = Kip848Coordinator(
            *(config, Cluster(config.client), self.subscription, Monitor(), self.look, ConsumerInterceptors(config))
        )
        self.made.heartbeat = cast(Heartbeat, SimpleNamespace(ident=1, wake=lambda: None))
        self.made.listener = self.notes = Noting()
        self.commit: Future[None] = Future()
        monkeypatch.setattr(self.made.commits, "begin", self.begin)
        self.metadata("a", "b")
        self.made.step()
        self.beat(1, "a")
        self.made.step()
        self.beat(1)
        assert self.made.member.state is State.STABLE
        self.subscription.state(TopicPartition("a", 0)).move(FetchPosition(3))

    def look(self) -> None:
        self.looks += 1

    def begin(self, *given: Any, **named: Any) -> Future[None]:
        return self.commit

    def beat(self, epoch: int, *topics: str) -> None:
        """A heartbeat, and an answer that assigns partition 0 of `topics`, where there are any."""
        parts = topic_partitions(TopicIdPartition(TOPICS[name], 0) for name in topics)
        member = self.made.member
        answer = ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=epoch,
            heartbeat_interval_ms=1000,
            assignment=Assignment(topic_partitions=parts) if topics else None,
        )
        member.answered(member.beat(member.polled), answer)

    def metadata(self, *known: str) -> None:
        """Metadata that describes these topics, and says of the others that there are none."""
        self.made.note_metadata(
            ClusterMetadata(
                topics={
                    name: TopicMetadata(
                        name, topic_id, False, {}, 0 if name in known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                    )
                    for name, topic_id in TOPICS.items()
                }
            )
        )


@pytest.mark.parametrize("when", ["before the plan", "in the commit", "as it is given up"])
@pytest.mark.parametrize("target_moves", [False, True])
def test_topics_that_metadata_forgets_amid_a_reconciliation(
    when: str, target_moves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget() -> None:
        if target_moves and when != "before the plan":
            made.member.target = frozenset({TopicIdPartition(TOPICS["a"], 0)})
        group.metadata("a")

    group = Reconciled(monkeypatch)
    made = group.made
    group.beat(2, "b")
    if when == "before the plan":
        forget()
    made.step()
    assert group.subscription.assigned == {TopicPartition("a", 0)}
    if when == "in the commit":
        forget()
    elif when == "as it is given up":
        monkeypatch.setattr(group.notes, "on_partitions_revoked", lambda partitions: forget())
    group.commit.set_result(None)
    made.step()
    assert group.subscription.assigned == {TopicPartition("b", 0)}
    # It is named, too, when it is given up in its turn.
    group.metadata("a")
    group.beat(3, "a")
    group.beat(3)
    made.step()
    assert group.subscription.assigned == {TopicPartition("a", 0)}


def test_a_topic_that_nobody_knows_is_looked_for_after_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Reconciled(monkeypatch)
    made = group.made
    group.beat(2, "b", "c")
    made.step()
    made._look_at = 0.0
    for _ in range(3):
        made.step()
        assert not made.due()
        assert made.next_time() > made.member.polled, "a poll waits, and does not spin"
    before = group.looks
    group.commit.set_result(None)
    assert made.due()
    made.step()
    assert group.subscription.assigned == {TopicPartition("b", 0)}
    group.beat(3)
    assert made.next_time() <= made.member.polled
    made.step()
    assert group.looks > before + 1
    assert made.next_time() > made.member.polled
    group.metadata("b", "c")
    assert made.due()
    made.step()
    assert group.subscription.assigned == {TopicPartition("b", 0), TopicPartition("c", 0)}


# Commits, in a thread of their own


def test_a_commit_that_is_sent_again_looks_under_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Reconciled(monkeypatch)
    monitor, member, tp = Monitor(), group.made.member, TopicPartition("a", 0)
    codes = iter([ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.NONE])
    looked: list[bool] = []

    def free() -> bool:
        taken = monitor.lock.acquire(blocking=False)
        if taken:
            monitor.lock.release()
        return taken

    def assigned() -> frozenset[TopicPartition]:
        with ThreadPoolExecutor(1) as other:
            looked.append(other.submit(free).result())
        return group.subscription.assigned

    requests = group.made.requests
    monkeypatch.setattr(requests, "commit", lambda *given: CommitAnswer(next(codes), tp))
    config = ConsumerConfig.from_dict({"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "retry.backoff.ms": 1})
    commits = Commits(
        *(config, requests, group.made, monitor, lambda: member.generation, assigned, lambda: True),
        ConsumerInterceptors(config),
    )
    try:
        commits.begin({tp: OffsetAndMetadata(3)}, time.monotonic() + DEADLINE_S).result(DEADLINE_S)
    finally:
        commits.worker.stop(DEADLINE_S)
    assert looked == [False, False], "nobody else could have taken the lock meanwhile"


# Metadata


class Described:
    """Takes the place of a cluster; its answers wait until a test lets them come."""

    def __init__(self) -> None:
        self.asked: list[frozenset[str]] = []
        self.permits = threading.Semaphore(0)
        self.answered = threading.Semaphore(0)

    def metadata(self, topics: frozenset[str], **given: Any) -> ClusterMetadata:
        self.asked.append(topics)
        assert self.permits.acquire(timeout=DEADLINE_S)
        return ClusterMetadata(topics={name: TopicMetadata(name, UUID(int=1), False, {}) for name in topics})


@pytest.mark.parametrize("topics", ["the same", "others"])
def test_metadata_that_is_asked_for_while_some_is_on_its_way(topics: str) -> None:
    subscription, cluster = SubscriptionState(), Described()
    subscription.subscribe(["a"])
    found: list[set[str]] = []
    watch = MetadataWatcher(
        CONFIG,
        cast(Cluster, cluster),
        subscription,
        Monitor(),
        lambda metadata: found.append(set(metadata.topics)),
        cluster.answered.release,
    )

    def answer() -> None:
        """Let an answer come, and have it noted."""
        cluster.permits.release()
        assert cluster.answered.acquire(timeout=DEADLINE_S)
        watch.step()

    try:
        watch.refresh()
        assert watch.next_time() == 0.0
        watch.step()
        watch.refresh()
        if topics == "others":
            subscription.subscribe(["a", "b"])
        watch.step()
        assert watch.next_time() == FOREVER, "one request at a time"
        answer()
        assert watch.next_time() == 0.0, "what was asked for meanwhile is not forgotten"
        watch.step()
        answer()
        assert found == [{"a"}, set(subscription.topics)]
        assert cluster.asked == [{"a"}, subscription.topics]
        assert watch.next_time() > time.monotonic() + 60, "and nothing more until it is old"
        watch.step()
        assert watch.next_time() < FOREVER, "nothing was asked"
    finally:
        cluster.permits.release(2)
        watch.stop()
