"""Tests of new leader epochs, as pure values."""

from __future__ import annotations

import uuid
from dataclasses import replace

from broker.controller.decisions.leadership import new_epochs
from broker.metadata.model import ClusterState, PartitionState, TopicState
from broker.metadata.operations import apply
from tests.support.in_process.registry import with_topics


def topic(name: str, *epochs: int) -> TopicState:
    states = tuple(PartitionState((1,), (1,), 1, epoch) for epoch in epochs)
    return TopicState(name, uuid.uuid5(uuid.NAMESPACE_DNS, name), states)


def test_the_named_partitions_begin_a_new_epoch_and_nothing_else_changes() -> None:
    before = topic("a", 0, 4)
    state = with_topics(ClusterState("c", controller_epoch=7), before, topic("b", 7))
    raised = apply(state, new_epochs(state, {("a", 1), ("gone", 0), ("a", 9)}))
    first, second = before.partitions
    elected = replace(second, leader_epoch=5, partition_epoch=1, controller_epoch=7)
    assert raised == with_topics(state, replace(before, partitions=(first, elected)))


def test_without_any_there_is_nothing_to_do() -> None:
    """So that a clean start writes no registry."""
    state = with_topics(ClusterState("c"), topic("a", 0))
    assert new_epochs(state, frozenset()) == []
    assert new_epochs(state, {("b", 0)}) == []
