"""Test what clients keep of the answers of brokers: later leaders win, whichever answer comes first."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafkalog.client.metadata import (
    Broker,
    ClusterMetadata,
    LeaderIdAndEpoch,
    PartitionMetadata,
    TopicMetadata,
    from_response,
    with_later_leaders,
    with_leaders,
    without_leader_epoch,
)
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalog.protocol.schema import ZERO_UUID

TP = TopicPartition("t", 0)
ONE, TWO = Broker(1, "one", 9092), Broker(2, "two", 9092)
ID = UUID(int=5)


def known(leader: int, epoch: int, topic_id: UUID = ID) -> ClusterMetadata:
    partition = PartitionMetadata(0, leader, epoch, (1, 2), (1, 2), (), 0)
    return ClusterMetadata("c", 1, {1: ONE}, {"t": TopicMetadata("t", topic_id, False, {0: partition})})


def response(leader: int, epoch: int, topic_id: UUID = ID) -> MetadataResponse:
    partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=each.node_id, host=each.host, port=each.port) for each in (ONE, TWO)],
        topics=[MetadataResponseTopic(name="t", topic_id=topic_id, partitions=[partition])],
    )


@pytest.mark.parametrize(
    ("epoch", "topic_id", "leader"),
    [(6, ID, 1), (7, ID, 2), (8, ID, 2), (0, UUID(int=9), 2), (0, ZERO_UUID, 2)],
    ids=["older", "the same epoch", "newer", "created again", "without an id"],
)
def test_an_older_answer_does_not_replace_a_leader(epoch: int, topic_id: UUID, leader: int) -> None:
    before = known(1, 7, ZERO_UUID if topic_id == ZERO_UUID else ID)
    answer = from_response(response(2, epoch, topic_id), ["t"])
    found = with_later_leaders(answer, before).topics["t"].partitions[0]
    assert found.leader == leader
    assert found.leader_epoch == (7 if leader == 1 else epoch)


def test_any_answer_replaces_a_leader_that_is_doubted() -> None:
    before = without_leader_epoch(known(1, 7), TP)
    assert before.topics["t"].partitions[0].leader == 1
    assert with_later_leaders(from_response(response(2, 0), ["t"]), before).topics["t"].partitions[0].leader == 2
    assert without_leader_epoch(before, TopicPartition("other", 0)) == before


def test_topics_that_the_broker_leaves_out() -> None:
    found = from_response(response(2, 0), ["t", "other"])
    assert {name: topic.error_code for name, topic in found.topics.items()} == {
        "t": ErrorCode.NONE,
        "other": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


def test_a_named_leader_is_taken_with_its_address() -> None:
    after, moved = with_leaders(known(1, 7), {TP: LeaderIdAndEpoch(2, 8)}, [TWO])
    assert moved == {TP}
    assert after.topics["t"].partitions[0][:3] == (0, 2, 8)
    assert after.brokers == {1: ONE, 2: TWO}


@pytest.mark.parametrize(
    ("tp", "leader", "brokers"),
    [
        (TP, LeaderIdAndEpoch(2, 7), [TWO]),
        (TP, LeaderIdAndEpoch(2, -1), [TWO]),
        (TP, LeaderIdAndEpoch(3, 8), [TWO]),
        (TopicPartition("t", 1), LeaderIdAndEpoch(2, 8), [TWO]),
        (TopicPartition("other", 0), LeaderIdAndEpoch(2, 8), [TWO]),
    ],
    ids=["the same epoch", "no epoch", "no address", "unknown partition", "unknown topic"],
)
def test_a_named_leader_is_passed_over(tp: TopicPartition, leader: LeaderIdAndEpoch, brokers: list[Broker]) -> None:
    before = known(1, 7)
    assert with_leaders(before, {tp: leader}, brokers) == (before, frozenset())
