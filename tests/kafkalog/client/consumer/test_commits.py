"""Test what becomes of commits that a coordinator refuses, and of callbacks that raise errors."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.consumer import Consumer, ConsumerConfig, WakeupError
from kafkalog.client.consumer.classic.coordinator import ClassicCoordinator
from kafkalog.client.consumer.fetcher.fetch_position import FetchPosition
from kafkalog.client.consumer.group.generation import Generation
from kafkalog.client.consumer.group.group_requests import CommitAnswer
from kafkalog.client.consumer.interceptors import ConsumerInterceptors
from kafkalog.client.consumer.subscription import SubscriptionState
from kafkalog.client.consumer.threads import Monitor
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from tests.kafkalog.client.consumer.conftest import OURS
from tests.kafkalog.client.consumer.support import DEADLINE_S, Live, numbers, poll_until, take, values

TP = TopicPartition("t", 0)
KEPT, DELETED = TopicPartition("kept", 0), TopicPartition("deleted", 0)


class Told:
    """An interceptor that notes of which commits it is told."""

    def __init__(self) -> None:
        self.offsets: list[dict[TopicPartition, int]] = []

    def on_commit(self, offsets: dict[TopicPartition, OffsetAndMetadata]) -> None:
        self.offsets.append({tp: each.offset for tp, each in offsets.items()})

    def of(self, tp: TopicPartition, offset: int) -> bool:
        """Tell whether this offset of a partition was committed."""
        return any(each.get(tp) == offset for each in self.offsets)


class Refusing:
    """A member that has read two partitions to offset 3; its commits are answered with `codes` first."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.told = Told()
        config = ConsumerConfig.from_dict(
            {
                "bootstrap.servers": "127.0.0.1:1",
                "group.id": "g",
                "retry.backoff.ms": 1,
                "interceptor.classes": [self.told],
            }
        )
        subscription = SubscriptionState()
        subscription.subscribe(["deleted", "kept"])
        subscription.assign([DELETED, KEPT])
        for tp in (DELETED, KEPT):
            subscription.state(tp).move(FetchPosition(3))
        self.made = ClassicCoordinator(
            *(config, Cluster(config.client), subscription, Monitor(), lambda: None, ConsumerInterceptors(config))
        )
        self.made.member.generation = Generation(1, "m")
        self.codes: list[dict[str, ErrorCode]] = []
        self.sent: list[list[str]] = []
        monkeypatch.setattr(self.made.requests, "_send", self._send)

    def _send(self, request: OffsetCommitRequest, timeout: float) -> OffsetCommitResponse:
        names = [topic.name for topic in request.topics]
        self.sent.append(names)
        codes = self.codes.pop(0) if self.codes else {}
        return OffsetCommitResponse(
            topics=[
                OffsetCommitResponseTopic(
                    name=name,
                    partitions=[OffsetCommitResponsePartition(partition_index=0, error_code=codes.get(name, 0))],
                )
                for name in names
            ]
        )

    def commit_first(self) -> None:
        """Commit as before a rebalance."""
        if not self.made._commit_first([DELETED]):
            assert self.made._preparing is not None
            self.made._preparing.exception(DEADLINE_S)

    def commit_last(self) -> None:
        """Commit as at the end."""
        self.made.commit_last(time.monotonic() + DEADLINE_S)


@pytest.fixture
def member(monkeypatch: pytest.MonkeyPatch) -> Iterator[Refusing]:
    found = Refusing(monkeypatch)
    yield found
    found.made.commits.worker.stop(DEADLINE_S)


OF_THE_MEMBER = pytest.mark.parametrize("commit", [Refusing.commit_first, Refusing.commit_last])


@OF_THE_MEMBER
def test_the_position_in_a_deleted_topic_is_not_committed_again(
    member: Refusing, commit: Callable[[Refusing], None]
) -> None:
    """Another topic of its name may be there by then."""
    member.codes = [{"deleted": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}]
    commit(member)
    assert member.sent == [["deleted", "kept"]]


@OF_THE_MEMBER
@pytest.mark.parametrize("code", [ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS])
def test_the_other_positions_are_committed_again_where_that_helps(
    member: Refusing, commit: Callable[[Refusing], None], code: ErrorCode
) -> None:
    """The broker answers for deleted topics itself, and the coordinator in it for the others."""
    member.codes = [{"deleted": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "kept": code}] * 2
    commit(member)
    assert member.sent == [["deleted", "kept"], ["kept"], ["kept"]]
    assert member.made.commits.count == 1
    member.made.commits.call_back()
    assert member.told.offsets == [{KEPT: 3}]


@OF_THE_MEMBER
@pytest.mark.parametrize("code", [ErrorCode.NONE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE])
def test_interceptors_are_told_of_what_was_committed(
    member: Refusing, commit: Callable[[Refusing], None], code: ErrorCode
) -> None:
    member.codes = [{"kept": code}]
    commit(member)
    member.made.commits.call_back()
    assert member.told.offsets == ([] if code else [{DELETED: 3, KEPT: 3}])


@pytest.mark.parametrize("live", [OURS], indirect=True)
@pytest.mark.parametrize("kip848", [OURS], indirect=True)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize("when", ["now and then", "at a rebalance", "at close", "commit", "commit_async"])
def test_interceptors_are_told_of_all_commits(live: Live, kip848: Live, protocol: str, when: str) -> None:
    members = live if protocol == "classic" else kip848
    topic, group, told = members.topic(2), members.group(), Told()
    members.produce(topic, 0, values(5))
    tp = TopicPartition(topic, 0)
    by_hand: dict[str, Any] = {"enable_auto_commit": False}
    commits = by_hand
    if not when.startswith("commit"):
        commits = {"auto_commit_interval_ms": 50 if when == "now and then" else round(DEADLINE_S * 10_000)}
    properties = members.properties(group, **commits) | {"interceptor.classes": [told]}
    with Consumer(properties) as first, members.consumer(group, **by_hand) as second:
        first.subscribe([topic])
        take(first, 5)
        if when == "at a rebalance":
            second.subscribe([topic])
            poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 1, "one each")
        elif when == "commit":
            first.commit()
            assert told.of(tp, 5)
        elif when == "commit_async":
            first.commit_async()
        if when != "at close":
            poll_until([first], lambda: told.of(tp, 5), "the interceptor is told")
    assert told.of(tp, 5)


def test_what_the_application_commits_is_sent_until_the_topic_is_known(member: Refusing) -> None:
    """A new topic takes a while to be known to all brokers."""
    member.codes = [{"deleted": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}] * 2
    offsets = dict.fromkeys((DELETED, KEPT), OffsetAndMetadata(3))
    member.made.commits.begin(offsets, time.monotonic() + DEADLINE_S).result(DEADLINE_S)
    assert member.sent == [["deleted", "kept"]] * 3


@pytest.mark.parametrize("in_time", [True, False])
def test_a_last_commit_that_fails_is_told(member: Refusing, in_time: bool, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody else would hear of it, and the group reads records again."""
    held = threading.Event()
    member.codes = [{"kept": ErrorCode.GROUP_AUTHORIZATION_FAILED}]
    if in_time:
        member.commit_last()
    else:
        member.made.commits.worker.submit(lambda: held.wait(DEADLINE_S))
        member.made.commit_last(time.monotonic())
        held.set()
    (told,) = caplog.messages
    assert told.startswith("group g: the last automatic commit failed: ")
    assert ("committing kept-0" if in_time else "did not end in time") in told


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_callback_is_called_as_soon_as_its_commit_is_done(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The poll that is under way calls it, although there is nothing else to do."""
    waiting = threading.Event()

    def committed(*given: Any) -> CommitAnswer:
        assert waiting.wait(DEADLINE_S)
        return CommitAnswer(0)

    def next_time() -> float:
        # The poll has done its steps, and is about to wait.
        waiting.set()
        return float("inf")

    named = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g", "enable.auto.commit": False}
    with Consumer({**named, "group.protocol": protocol}) as consumer:
        consumer._subscription.assign_manually([TP])
        consumer._subscription.state(TP).move(FetchPosition(0))
        assert consumer._coordinator is not None
        monkeypatch.setattr(consumer._coordinator.requests, "commit", committed)
        monkeypatch.setattr(consumer._loop, "_next_time", next_time)
        consumer.commit_async({TP: 1}, callback=lambda offsets, error: consumer.wakeup())
        with pytest.raises(WakeupError):
            consumer.poll(DEADLINE_S)


def test_callbacks_that_raise_as_the_consumer_closes_do_not_keep_it_in_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All callbacks are called, and the first error is raised."""
    called: list[int] = []

    def refuse(offsets: dict[TopicPartition, OffsetAndMetadata], error: Exception | None) -> None:
        called.append(offsets[TP].offset)
        if offsets[TP].offset > 1:
            raise LookupError(f"of callback {offsets[TP].offset}")

    reasons: list[str] = []
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    consumer._subscription.subscribe(["t"])
    member = consumer._coordinator
    assert member is not None
    monkeypatch.setattr(member.requests, "commit", lambda *given: CommitAnswer(0))
    monkeypatch.setattr(member, "leave", lambda reason, timeout: reasons.append(reason))
    for offset in (1, 2, 3):
        consumer.commit_async({TP: offset}, callback=refuse)
    with pytest.raises(LookupError, match="of callback 2"):
        consumer.close()
    assert called == [1, 2, 3]
    assert reasons == ["the consumer is being closed"]
