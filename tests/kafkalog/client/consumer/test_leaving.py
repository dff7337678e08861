"""Test that consumers that close, leave while they join, or are dropped leave nothing behind."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Collection
from typing import Any

import pytest

from kafkalog.client.admin.groups.descriptions import MemberToRemove
from kafkalog.client.admin.groups.group_admin import GroupAdmin
from kafkalog.client.config import ClientConfig
from kafkalog.client.consumer import Consumer, RebalanceListener
from kafkalog.client.consumer.classic.coordinator import ClassicCoordinator
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import FencedInstanceIdError
from tests.kafkalog.client.consumer.conftest import OURS
from tests.kafkalog.client.consumer.support import (
    DEADLINE_S,
    Kip848Live,
    Live,
    Noting,
    numbers,
    poll_until,
    take,
    values,
)
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.timeout(300), pytest.mark.parametrize("live", [OURS], indirect=True)]


def test_a_listener_commits_while_the_consumer_closes(live: Live) -> None:
    topic, group = live.topic(), live.group()
    live.produce(topic, 0, values(5))
    tp = TopicPartition(topic, 0)
    refused: list[type[Exception]] = []

    class Committing(RebalanceListener):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            thread = threading.Thread(target=elsewhere)
            thread.start()
            thread.join()
            consumer.commit({tp: 3})

    def elsewhere() -> None:
        try:
            consumer.assignment()
            consumer.poll(0)
        except RuntimeError as error:
            refused.append(type(error))

    consumer = Consumer(live.properties(group, enable_auto_commit=False))
    consumer.subscribe([topic], listener=Committing())
    take(consumer, 5)
    consumer.close()
    assert refused == [RuntimeError]
    with pytest.raises(RuntimeError, match="closed"):
        consumer.commit({tp: 4})
    with live.consumer(group) as another:
        assert another.committed([tp])[tp].offset == 3


@pytest.mark.parametrize("automatic", [True, False])
def test_closing_waits_for_commits_whoever_calls_wakeup(live: Live, automatic: bool) -> None:
    topic, group = live.topic(), live.group()
    live.produce(topic, 0, values(5))
    tp = TopicPartition(topic, 0)
    done: list[tuple[Any, Any]] = []
    held = threading.Event()
    with live.consumer(group, enable_auto_commit=automatic) as consumer:
        consumer.subscribe([topic])
        take(consumer, 5)
        assert consumer._coordinator is not None
        # The commit's turn comes only after the main thread is on its way out.
        consumer._coordinator.commits.worker.submit(lambda: held.wait(DEADLINE_S))
        if not automatic:
            consumer.commit_async(callback=lambda offsets, error: done.append((offsets[tp].offset, error)))
        consumer.wakeup()
        threading.Timer(0.5, held.set).start()
    with live.consumer(group) as another:
        assert another.committed([tp])[tp].offset == 5
    assert done == ([] if automatic else [(5, None)])


def test_who_leaves_while_joining_is_no_member(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    topic, group = live.topic(2), live.group()
    properties = ClientConfig.from_dict({"bootstrap.servers": live.address})
    with (
        GroupAdmin(properties) as admin,
        live.consumer(group) as first,
        live.consumer(group, group_instance_id="i-2") as second,
    ):
        first.subscribe([topic])
        poll_until([first], lambda: numbers(first) == [0, 1], "all partitions")
        second.subscribe([topic])
        member = second._coordinator
        assert isinstance(member, ClassicCoordinator)

        def rebalancing() -> bool:
            second.poll(0)
            return admin.describe_groups([group])[group].state == "PreparingRebalance"

        wait_until(rebalancing, "it joins")
        # As where the coordinator's answer is on its way already. A static member has no id until then.
        monkeypatch.setattr(member.requests, "interrupt", lambda: None)
        second.unsubscribe()
        poll_until([first], lambda: first.metrics()["rebalance-total"] >= 2, "the rebalance with it")
        poll_until([first], lambda: numbers(first) == [0, 1], "all partitions, after its session")
        assert not member.member.beating


def test_partitions_are_lost_to_who_was_given_up_while_joining(live: Live) -> None:
    topic, group = live.topic(2), live.group()
    live.produce(topic, 0, values(5))
    noting = Noting()
    slowly = {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 5000}
    with live.consumer(group, enable_auto_commit=False, **slowly) as consumer:
        consumer.subscribe([topic], listener=noting)
        take(consumer, 5)
        with GroupAdmin(ClientConfig.from_dict({"bootstrap.servers": live.address})) as admin:
            admin.remove_members(group, [MemberToRemove(consumer.group_metadata().member_id)])
        # It keeps what it has while it joins, and learns only then that others may have it.
        consumer.enforce_rebalance()
        assert consumer.assignment()
        poll_until([consumer], lambda: len(noting.calls) >= 3, "a new assignment")
        assert noting.calls[:3] == [("assigned", [0, 1]), ("lost", [0, 1]), ("assigned", [0, 1])]
        assert [record.offset for record in take(consumer, 5)] == list(range(5)), "from what is committed"


@pytest.mark.parametrize("learns", ["by a heartbeat", "by a commit"])
def test_a_static_member_whose_id_another_takes_does_not_take_it_back(live: Live, learns: str) -> None:
    topic, group = live.topic(2), live.group()
    live.produce(topic, 0, values(5))
    noting = Noting()
    pause = 200 if learns == "by a heartbeat" else 5000
    static = {
        "group_instance_id": "i-1",
        "enable_auto_commit": False,
        "heartbeat_interval_ms": pause,
        "session_timeout_ms": 60_000,
    }
    with live.consumer(group, **static) as first, live.consumer(group, **static) as second:
        first.subscribe([topic], listener=noting)
        take(first, 5)
        second.subscribe([topic])
        poll_until([second], lambda: numbers(second) == [0, 1], "what the first had")
        if learns == "by a commit":
            with pytest.raises(FencedInstanceIdError):
                first.commit()
        with pytest.raises(FencedInstanceIdError, match=r"another member has group.instance.id i-1"):
            poll_until([first], lambda: False, "the error")
        for _ in range(3):
            with pytest.raises(FencedInstanceIdError):
                first.poll(0)
            with pytest.raises(FencedInstanceIdError):
                first.commit({TopicPartition(topic, 0): 1})
        assert noting.calls == [("assigned", [0, 1]), ("lost", [0, 1])]
        # Without offsets, a consumer that has no positions yet would commit nothing.
        second.commit({TopicPartition(topic, 0): 0})
        generation = second.group_metadata()
        assert second.metrics()["commit-total"] == 1
        assert second.group_metadata() == generation
        # Who wants the id back says so.
        first.unsubscribe()
        first.subscribe([topic])
        poll_until([first], lambda: numbers(first) == [0, 1], "all partitions again")
        with pytest.raises(FencedInstanceIdError):
            poll_until([second], lambda: False, "the error")


def test_the_group_keeps_the_place_of_a_static_member_that_unsubscribes(live: Live) -> None:
    topic, group = live.topic(2), live.group()
    with (
        GroupAdmin(ClientConfig.from_dict({"bootstrap.servers": live.address})) as admin,
        live.consumer(group, group_instance_id="i-1", session_timeout_ms=60_000) as consumer,
    ):
        consumer.subscribe([topic])
        poll_until([consumer], lambda: numbers(consumer) == [0, 1], "all partitions")
        generation = consumer.group_metadata().generation_id
        consumer.unsubscribe()
        assert [each.instance_id for each in admin.describe_groups([group])[group].members] == ["i-1"]
        consumer.subscribe([topic])
        poll_until([consumer], lambda: numbers(consumer) == [0, 1], "all partitions again")
        assert consumer.group_metadata().generation_id == generation


def read_in_a_group(live: Live) -> Consumer:
    topic = live.topic()
    live.produce(topic, 0, values(5))
    consumer = Consumer(live.properties(live.group()))
    consumer.subscribe([topic])
    take(consumer, 5)
    return consumer


USES: dict[str, Callable[[Live], Consumer]] = {
    "nothing was read": lambda live: Consumer({"bootstrap.servers": live.address}),
    "a classic group": read_in_a_group,
    "a group of the consumer protocol": lambda live: read_in_a_group(Kip848Live(live.address)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_closed_consumer_has_no_sockets(live: Live, use: Callable[[Live], Consumer]) -> None:
    """Python warns of each socket that the garbage collector has to close."""
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        use(live).close()
        gc.collect()
    assert [str(each.message) for each in told if issubclass(each.category, ResourceWarning)] == []
