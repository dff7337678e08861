"""New leader epochs, as values."""

from __future__ import annotations

import uuid

from broker.controller.leadership import with_new_epochs
from broker.metadata.model import ClusterState, PartitionState, TopicState


def topic(name: str, *epochs: int) -> TopicState:
    states = tuple(PartitionState((1,), (1,), 1, epoch) for epoch in epochs)
    return TopicState(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), states)


def test_the_named_partitions_begin_a_new_epoch_and_nothing_else_changes() -> None:
    state = ClusterState("c").with_topics(topic("a", 0, 4), topic("b", 7))
    raised = with_new_epochs(state, {("a", 1), ("gone", 0), ("a", 9)})
    assert raised == state.with_topics(topic("a", 0, 5))


def test_without_any_the_state_is_the_same_one() -> None:
    """So that a clean start writes no registry."""
    state = ClusterState("c").with_topics(topic("a", 0))
    assert with_new_epochs(state, frozenset()) is state
    assert with_new_epochs(state, {("b", 0)}) is state
