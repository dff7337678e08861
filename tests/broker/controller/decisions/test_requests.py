"""Tests of the requests that follow from a controller's decision, and of plans for topics, as pure values."""

from __future__ import annotations

import random
import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.controller.decisions.planning import NewTopic, Placement, TopicPlan, creations, deletions, growth
from broker.controller.decisions.requests import requests_for, roles_of
from broker.metadata.model import ClusterState, PartitionState, TopicState
from broker.metadata.operations import ChangePartitions, CreateTopic, DeleteTopic, apply
from broker.replica.hosting.applier import DELETION_EPOCH
from kafkalog.protocol.errors import (
    InvalidReplicaAssignmentError,
    InvalidTopicError,
    KafkaError,
    PolicyViolationError,
    TopicAlreadyExistsError,
)

BROKERS = (1, 2, 5)
PLACEMENT = Placement(BROKERS, 3, 2, controller_epoch=4, random=random.Random(1))


def planned(state: ClusterState, *topics: NewTopic) -> tuple[list[TopicState], list[KafkaError]]:
    plan = TopicPlan(state, PLACEMENT)
    errors = []
    for topic in topics:
        try:
            plan.add(plan.plan(topic))
        except KafkaError as error:
            errors.append(error)
    return list(plan.topics.values()), errors


def test_every_replica_of_a_new_partition_is_told_of_it_and_nobody_else() -> None:
    state = ClusterState("c")
    (topic,), _ = planned(state, NewTopic("t", 4, 2))
    operations = [CreateTopic(topic)]
    requests = requests_for(state, operations)
    for broker in BROKERS:
        held = [index for index, partition in enumerate(topic.partitions) if broker in partition.replicas]
        told = requests[broker].leader_and_isr
        assert [each.partition for each in told] == held
        assert all(each.is_new and each.topic_id == topic.topic_id for each in told)
        assert not requests[broker].stop_replica
        # A broker that starts is given the same roles, of partitions that are not new.
        after = apply(state, operations)
        assert roles_of(after, broker) == [replace(each, is_new=False) for each in told]


def test_a_deleted_topic_is_taken_from_all_its_replicas() -> None:
    state = ClusterState("c")
    (topic,), _ = planned(state, NewTopic("t", 2, 2))
    state = apply(state, [CreateTopic(topic)])
    wanted = {"t": topic.topic_id, "gone": uuid.uuid4()}
    assert deletions(state, {"t": uuid.uuid4()}) == []
    operations = deletions(state, wanted)
    assert operations == [DeleteTopic("t", topic.topic_id)]
    stops = [
        (broker, stop.partition)
        for broker, sent in requests_for(state, operations).items()
        for stop in sent.stop_replica
    ]
    assert sorted(stops) == sorted((b, i) for i, partition in enumerate(topic.partitions) for b in partition.replicas)
    assert all(
        stop.delete and stop.leader_epoch == DELETION_EPOCH
        for sent in requests_for(state, operations).values()
        for stop in sent.stop_replica
    )


def test_a_broker_that_loses_a_replica_stops_it_and_the_others_are_told() -> None:
    held = PartitionState((1, 2), (1, 2), 1, leader_epoch=3, partition_epoch=7)
    topic = TopicState("t", uuid.uuid4(), (held,))
    moved = PartitionState((2, 5), (2, 5), 2, leader_epoch=4, partition_epoch=8)
    state = apply(ClusterState("c"), [CreateTopic(topic)])
    requests = requests_for(state, [ChangePartitions("t", {0: moved})])
    assert {broker: [each.state for each in sent.leader_and_isr] for broker, sent in requests.items()} == {
        1: [],
        2: [moved],
        5: [moved],
    }
    (stop,) = requests[1].stop_replica
    assert (stop.key, stop.leader_epoch, stop.delete) == (("t", 0), 4, True)


@given(st.lists(st.sampled_from(["a", "b", "a.b", "a_b", "bad name", "", ".."]), max_size=8))
def test_a_creation_never_takes_a_name_twice(names: list[str]) -> None:
    present = TopicState("a", uuid.uuid4(), (PartitionState((1,), (1,), 1),))
    state = apply(ClusterState("c"), [CreateTopic(present)])
    topics, errors = planned(state, *(NewTopic(name) for name in names))
    made, refused = creations(state, PLACEMENT, topics)
    assert (len(made), refused) == (len(names) - len(errors), {})
    after = apply(state, made)
    folded = [name.replace(".", "_") for name in after.topics]
    assert len(set(folded)) == len(folded)
    # Decided once more, after another request with the same topics: none is made again.
    again, refused = creations(after, PLACEMENT, topics)
    assert again == []
    assert all(isinstance(error, TopicAlreadyExistsError | InvalidTopicError) for error in refused.values())
    assert set(refused) == {topic.name for topic in topics}


def test_partitions_of_one_request_are_bounded() -> None:
    _, errors = planned(ClusterState("c"), NewTopic("a", 9_999, 1), NewTopic("b", 2, 1), NewTopic("c", 1, 1))
    assert [type(error) for error in errors] == [PolicyViolationError]


def test_leaders_of_added_partitions_go_on_round_robin_from_the_first() -> None:
    held = tuple(PartitionState((broker,), (broker,), broker) for broker in (2, 5, 1))
    operation = growth(TopicState("t", uuid.uuid4(), held), 7, None, PLACEMENT)
    assert operation.first == 3
    assert [partition.leader for partition in operation.partitions] == [2, 5, 1, 2]
    assert {partition.controller_epoch for partition in operation.partitions} == {4}
    with pytest.raises(PolicyViolationError):
        growth(TopicState("t", uuid.uuid4(), held), 20_000, None, PLACEMENT)


def test_added_partitions_have_as_many_replicas_as_the_first() -> None:
    topic = TopicState("t", uuid.uuid4(), (PartitionState((1, 2, 5), (1, 2, 5), 1),))
    with pytest.raises(InvalidReplicaAssignmentError, match="partition 0 has 3 while the new partitions have 1"):
        growth(topic, 3, [[2], [1]], PLACEMENT)
    assert len(growth(topic, 2, [[2, 1, 5]], PLACEMENT).partitions) == 1
