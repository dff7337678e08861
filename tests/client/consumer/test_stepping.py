"""When steps of a poll are due: a poll with nothing to do waits, and what was asked for is not forgotten."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import Future
from typing import cast

import pytest

from kafkalog.client.consumer import ConsumerConfig
from kafkalog.client.consumer.beginnings import Beginnings
from kafkalog.client.consumer.coordinator import Coordinator
from kafkalog.client.consumer.positions import Position
from kafkalog.client.consumer.shared import Shared
from kafkalog.client.consumer.subscription import SubscriptionState
from kafkalog.client.types import OffsetAndMetadata, TopicPartition

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


def beginnings(subscription: SubscriptionState, coordinator: Asked) -> Beginnings:
    return Beginnings(CONFIG, cast(Coordinator, coordinator), subscription, Shared(), lambda: None)


@pytest.mark.parametrize("meanwhile", ["seek", "revoke"])
@pytest.mark.parametrize("answer", ["offsets", "an error"])
def test_committed_offsets_that_nobody_waits_for(meanwhile: str, answer: str) -> None:
    subscription, coordinator = SubscriptionState(), Asked()
    subscription.assign_manually([TP])
    made = beginnings(subscription, coordinator)
    assert made.due()
    made.step()
    if meanwhile == "seek":
        subscription.state(TP).move(Position(5))
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
        assert subscription.state(TP).position == Position(5)
    # Those that are assigned later are asked for.
    subscription.assign([*subscription.assigned, OTHER])
    assert made.due()
    made.step()
    assert coordinator.asked == [[TP], [OTHER]]
    coordinator.answers[1].set_result({OTHER: OffsetAndMetadata(7)})
    assert made.due()
    made.step()
    assert subscription.state(OTHER).position == Position(7)
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
