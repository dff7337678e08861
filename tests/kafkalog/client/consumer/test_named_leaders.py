"""Test that the consumer goes to the leader that a refusal names (KIP-951), without a pause."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from kafkalog.client.consumer import Consumer
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from tests.kafkalog.client.consumer.leaders import batch
from tests.kafkalog.client.consumer.support import DEADLINE_S
from tests.support.scripted import ScriptedBroker, metadata

pytestmark = pytest.mark.timeout(300)
TP = TopicPartition("t", 0)
NEVER_MS = round(DEADLINE_S * 10_000)
"""Longer than the test: a consumer that pauses fails it."""


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_the_consumer_goes_to_the_named_leader(code: ErrorCode) -> None:
    def answering(data: PartitionData) -> Callable[[FetchRequest], FetchResponse]:
        def answer(request: FetchRequest) -> FetchResponse:
            (topic,) = request.topics
            answered = FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])
            endpoint = NodeEndpoint(node_id=2, host="127.0.0.1", port=new.port)
            return FetchResponse(responses=[answered], node_endpoints=[endpoint])

        return answer

    def told(request: MetadataRequest) -> MetadataResponse:
        answer = metadata({1: old, 2: new}, {("t", 0): 1}, epoch=4)
        answer.topics[0].topic_id = UUID(int=1)
        return answer

    refusal = PartitionData(error_code=code, high_watermark=-1)
    refusal.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
    records = PartitionData(high_watermark=2, last_stable_offset=2, records=memoryview(batch(0)))
    with ScriptedBroker() as new, ScriptedBroker() as old:
        old.handlers[MetadataRequest] = new.handlers[MetadataRequest] = told
        old.handlers[FetchRequest] = answering(refusal)
        new.handlers[FetchRequest] = answering(records)
        properties: dict[str, Any] = {
            "bootstrap.servers": old.address,
            "retry.backoff.ms": NEVER_MS,
            "retry.backoff.max.ms": NEVER_MS,
        }
        with Consumer(properties) as consumer:
            consumer.assign([TP])
            consumer.seek(TP, 0)
            assert [record.offset for record in consumer.poll(DEADLINE_S)] == [0, 1]
        assert old.seen[FetchRequest] == 1
