"""Test positions at leaders whose logs or versions know no leader epochs (KIP-320)."""

from __future__ import annotations

from typing import Any

from kafkalog.client.consumer import Consumer
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kafkalog.records.batch import Record, encode_batch
from tests.kafkalog.client.consumer.support import DEADLINE_S, take
from tests.support.scripted import ScriptedBroker, api_versions, metadata

TP = TopicPartition("t", 0)
END = 5


def fetched(request: FetchRequest) -> FetchResponse:
    """Answer with the only record, at offset `END`."""
    record = encode_batch([Record(END, 0, None, b"v", ())], base_offset=END, leader_epoch=0)
    found = PartitionData(partition_index=0, high_watermark=END + 1, last_stable_offset=END + 1)
    if request.topics[0].partitions[0].fetch_offset == END:
        found.records = memoryview(bytes(record))
    return FetchResponse(responses=[FetchableTopicResponse(topic=TP.topic, partitions=[found])])


def looked_up(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer with the end and the leader's epoch, as Apache Kafka does for a log of any message format."""
    found = ListOffsetsPartitionResponse(partition_index=0, offset=END, leader_epoch=0)
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name=TP.topic, partitions=[found])])


def unknown_epoch(request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer for a log without epochs."""
    found = EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
    return OffsetForLeaderEpochResponse(topics=[OffsetForLeaderTopicResult(topic=TP.topic, partitions=[found])])


def leader(**limits: int) -> ScriptedBroker:
    broker = ScriptedBroker(
        {
            FetchRequest: fetched,
            ListOffsetsRequest: looked_up,
            OffsetForLeaderEpochRequest: unknown_epoch,
        }
    )

    def versions(request: ApiVersionsRequest) -> Any:
        return api_versions(OffsetForLeaderEpochRequest, **limits)

    broker.handlers[ApiVersionsRequest] = versions
    broker.handlers[MetadataRequest] = lambda request: metadata({0: broker}, {(TP.topic, 0): 0}, epoch=1)
    return broker


def test_a_position_that_was_looked_up_is_not_validated() -> None:
    """A log of message formats v0 and v1 has no epochs, so that the leader could only answer that it was truncated."""
    with leader() as broker, Consumer({"bootstrap.servers": broker.address}) as consumer:
        consumer.assign([TP])
        assert [record.offset for record in take(consumer, 1)] == [END]
        assert not broker.seen[OffsetForLeaderEpochRequest]


def test_leaders_before_kafka_2_3_are_not_asked() -> None:
    with leader(OFFSET_FOR_LEADER_EPOCH=2) as broker, Consumer({"bootstrap.servers": broker.address}) as consumer:
        consumer.assign([TP])
        consumer.seek(TP, OffsetAndMetadata(END, leader_epoch=0))
        assert [record.offset for record in consumer.poll(DEADLINE_S)] == [END]
        assert not broker.seen[OffsetForLeaderEpochRequest]
