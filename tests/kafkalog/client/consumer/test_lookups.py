"""Test that a partition whose offset cannot be looked up now keeps no other partition of its leader waiting."""

from __future__ import annotations

import pytest

from kafkalog.client.consumer import Consumer
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, TopicAuthorizationFailedError
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.kafkalog.client.consumer.leaders import Leader
from tests.kafkalog.client.consumer.support import poll_until, take
from tests.support.scripted import metadata

WELL, SICK = TopicPartition("t", 0), TopicPartition("t", 1)


class Offsets:
    """The answers of a leader about offsets: an error for one of two partitions. `asked` has all questions."""

    def __init__(self, leader: Leader, error: ErrorCode) -> None:
        self.error = error
        self.asked: list[list[int]] = []
        leader.broker.handlers[ListOffsetsRequest] = self._answer
        leader.broker.handlers[MetadataRequest] = lambda request: metadata({1: leader.broker}, {WELL: 1, SICK: 1})

    def _answer(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        numbers = [each.partition_index for each in request.topics[0].partitions]
        self.asked.append(sorted(numbers))
        answers = [
            ListOffsetsPartitionResponse(partition_index=number, error_code=self.error)
            if number == SICK.partition
            else ListOffsetsPartitionResponse(partition_index=number, offset=0)
            for number in numbers
        ]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=answers)])


def consumer(leader: Leader) -> Consumer:
    servers = {"bootstrap.servers": leader.broker.address, "retry.backoff.ms": 20}
    return Consumer({**servers, "auto.offset.reset": "earliest"})


@pytest.mark.parametrize("error", [ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER])
def test_an_error_that_passes(error: ErrorCode) -> None:
    leader = Leader()
    offsets = Offsets(leader, error)
    with leader.broker, consumer(leader) as reading:
        reading.assign([WELL, SICK])
        assert {record.partition for record in take(reading, 2)} == {WELL.partition}
        offsets.error = ErrorCode.NONE
        assert {record.partition for record in take(reading, 2)} == {SICK.partition}
        leader.released.set()
    assert offsets.asked[0] == [0, 1]
    assert all(numbers == [1] for numbers in offsets.asked[1:]), "only what is unknown is asked again"


def test_an_error_that_stays() -> None:
    leader = Leader()
    Offsets(leader, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    with leader.broker, consumer(leader) as reading:
        reading.assign([WELL, SICK])
        with pytest.raises(TopicAuthorizationFailedError, match="t-1"):
            poll_until([reading], lambda: False, "the partition's error")
        reading.assign([WELL])
        assert {record.partition for record in take(reading, 2)} == {WELL.partition}
        leader.released.set()
