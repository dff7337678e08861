"""Test that a rebalance continues if its listener raises, and that the application's call raises the error."""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any

import pytest

from kafkalog.client.consumer import Consumer
from kafkalog.client.types import TopicPartition
from tests.kafkalog.client.consumer.support import Kip848Live, Live, Noting, numbers, poll_until, take, values

pytestmark = [pytest.mark.timeout(300)]

PROTOCOLS: dict[str, tuple[type[Live], dict[str, Any]]] = {
    "eager": (Live, {"partition_assignment_strategy": "range"}),
    "cooperative": (Live, {"partition_assignment_strategy": "cooperative-sticky"}),
    "consumer": (Kip848Live, {}),
}


class Raising(Noting):
    """Raises once from the callback that it is told of, after noting the call."""

    def __init__(self, raises_in: str) -> None:
        super().__init__()
        self.raises_in = raises_in

    def raise_once(self, name: str) -> None:
        if name == self.raises_in:
            self.raises_in = ""
            raise PermissionError(f"the listener failed as partitions were {name}")

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        super().on_partitions_assigned(partitions)
        self.raise_once("assigned")

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        super().on_partitions_revoked(partitions)
        self.raise_once("revoked")


def poll_until_it_raises(consumers: list[Consumer]) -> None:
    """The first of them raises what its listener raised; the others are polled in turns with it."""
    raised: list[Exception] = []

    def has_raised() -> bool:
        try:
            consumers[0].poll(0.05)
        except PermissionError as error:
            raised.append(error)
        return bool(raised)

    poll_until(consumers[1:], has_raised, "what the listener raises")
    assert "the listener failed" in str(raised[0])


@pytest.fixture(params=PROTOCOLS)
def make_consumer(request: pytest.FixtureRequest, group_broker: str) -> Callable[[ExitStack, str], Consumer]:
    """Makes members of a group under each protocol."""
    kind, properties = PROTOCOLS[request.param]

    def make(stack: ExitStack, group: str) -> Consumer:
        return stack.enter_context(kind(group_broker).consumer(group, **properties))

    return make


@pytest.fixture
def live(group_broker: str) -> Live:
    return Live(group_broker)


def test_partitions_are_given_up_though_the_listener_raises(
    live: Live, make_consumer: Callable[[ExitStack, str], Consumer]
) -> None:
    topic, group = live.topic(4), live.group()
    listener = Raising("revoked")
    with ExitStack() as stack:
        first, second = (make_consumer(stack, group) for _ in range(2))
        first.subscribe([topic], listener=listener)
        poll_until([first], lambda: len(numbers(first)) == 4, "all partitions")
        second.subscribe([topic])
        poll_until_it_raises([first, second])
        [assigned, revoked, *_] = listener.calls
        assert (assigned, revoked[0]) == (("assigned", [0, 1, 2, 3]), "revoked")
        assert not set(revoked[1]) & set(numbers(first)), "given up all the same"
        poll_until([first, second], lambda: len(numbers(first)) == len(numbers(second)) == 2, "two for each")
        assert sorted(numbers(first) + numbers(second)) == [0, 1, 2, 3]
        assert [name for name, _ in listener.calls].count("revoked") == 1, "not called again for the same"


def test_partitions_are_taken_though_the_listener_raises(
    live: Live, make_consumer: Callable[[ExitStack, str], Consumer]
) -> None:
    topic, group = live.topic(2), live.group()
    live.produce(topic, 0, values(5))
    listener = Raising("assigned")
    with ExitStack() as stack:
        consumer = make_consumer(stack, group)
        consumer.subscribe([topic], listener=listener)
        poll_until_it_raises([consumer])
        assert numbers(consumer) == [0, 1]
        take(consumer, 5)
        assert listener.calls == [("assigned", [0, 1])]


def test_a_cooperative_assignment_is_taken_in_the_call_in_which_giving_up_raises(live: Live) -> None:
    """As Apache Kafka's consumer: each step of taking an assignment is done, and the first exception raised after."""
    topics, group = [live.topic(2), live.topic(2)], live.group()
    strategy = {"partition_assignment_strategy": "cooperative-sticky"}
    listener = Raising("revoked")
    with live.consumer(group, **strategy) as first, live.consumer(group, **strategy) as second:
        first.subscribe(topics, listener=listener)
        poll_until([first], lambda: len(numbers(first)) == 4, "all partitions")
        second.subscribe(topics)
        poll_until_it_raises([first, second])
        assert [name for name, _ in listener.calls] == ["assigned", "revoked", "assigned"]


def test_leaving_is_finished_though_the_listener_raises(
    live: Live, make_consumer: Callable[[ExitStack, str], Consumer]
) -> None:
    topic, group = live.topic(2), live.group()
    with ExitStack() as stack:
        first, second = (make_consumer(stack, group) for _ in range(2))
        first.subscribe([topic], listener=Raising("revoked"))
        poll_until([first], lambda: len(numbers(first)) == 2, "all partitions")
        with pytest.raises(PermissionError):
            first.unsubscribe()
        assert numbers(first) == []
        second.subscribe([topic])
        poll_until([second], lambda: len(numbers(second)) == 2, "what the other had")
