"""Test that the producer goes to the leader that a refusal names (KIP-951), without metadata and without a pause."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kafkalog.client.producer import Producer
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalog.protocol.messages.produce import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from tests.support.scripted import ScriptedBroker

DEADLINE_S = 60.0
NEVER_MS = 600_000
"""Longer than the test: a producer that pauses, or waits for metadata, fails it."""


class Moved:
    """A partition whose leader in metadata, broker 1, names broker 2 as the leader."""

    def __init__(self) -> None:
        self.asked = 0
        self.refused = 0
        self.new = ScriptedBroker({ProduceRequest: lambda _: self._answer(PartitionProduceResponse(base_offset=7))})
        self.old = ScriptedBroker({MetadataRequest: lambda _: self._metadata(), ProduceRequest: self._refuse})

    def _metadata(self) -> MetadataResponse:
        self.asked += 1
        partition = MetadataResponsePartition(partition_index=0, leader_id=1, leader_epoch=4)
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=1, host="127.0.0.1", port=self.old.port)],
            topics=[MetadataResponseTopic(name="t", partitions=[partition])],
        )

    def _refuse(self, _: ProduceRequest) -> ProduceResponse:
        self.refused += 1
        refusal = PartitionProduceResponse(error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER, base_offset=-1)
        refusal.current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=5)
        answer = self._answer(refusal)
        answer.node_endpoints = [NodeEndpoint(node_id=2, host="127.0.0.1", port=self.new.port)]
        return answer

    @staticmethod
    def _answer(partition: PartitionProduceResponse) -> ProduceResponse:
        return ProduceResponse(responses=[TopicProduceResponse(name="t", partition_responses=[partition])])


@pytest.fixture
def moved() -> Iterator[Moved]:
    made = Moved()
    with made.old, made.new:
        yield made


def test_the_producer_goes_to_the_named_leader(moved: Moved) -> None:
    config = {
        "bootstrap.servers": f"127.0.0.1:{moved.old.port}",
        "enable.idempotence": "false",
        "retry.backoff.ms": NEVER_MS,
        "retry.backoff.max.ms": NEVER_MS,
        "delivery.timeout.ms": 2 * NEVER_MS,
    }
    with Producer(config) as producer:
        assert producer.send("t", b"first").result(DEADLINE_S).offset == 7
        assert producer.send("t", b"second").result(DEADLINE_S).offset == 7
    assert (moved.asked, moved.refused) == (1, 1)
