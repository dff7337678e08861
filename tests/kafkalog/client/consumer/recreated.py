"""A broker with a topic that was deleted and created again, for tests of consumers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID, uuid4

from kafkalog.client.consumer import Consumer
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kafkalog.records.batch import Record, encode_batch
from tests.kafkalog.client.consumer.support import take
from tests.support.scripted import ScriptedBroker, api_versions, metadata

TP = TopicPartition("t", 0)
OLD, NEW = uuid4(), uuid4()


class Topic:
    """A broker with one topic of five records, whose ids it and its metadata know; `refusals` come first."""

    def __init__(self, newest_fetch: int = FetchRequest.max_version) -> None:
        self.topic_id = self.known_id = OLD
        self.refusals = 0
        self.refusal = ErrorCode.UNKNOWN_TOPIC_ID
        self.asked: list[tuple[str, UUID, int]] = []
        self.broker = ScriptedBroker(
            {
                ApiVersionsRequest: lambda request: api_versions(FETCH=newest_fetch),
                FetchRequest: self._fetch,
                ListOffsetsRequest: self._offsets,
                MetadataRequest: self._metadata,
            }
        )

    def _metadata(self, request: MetadataRequest) -> MetadataResponse:
        answer = metadata({0: self.broker}, {("t", 0): 0}, epoch=-1)
        answer.topics[0].topic_id = self.known_id
        return answer

    def _offsets(self, request: ListOffsetsRequest) -> ListOffsetsResponse:
        found = ListOffsetsPartitionResponse(partition_index=0, offset=0)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    def _fetch(self, request: FetchRequest) -> FetchResponse:
        (topic,) = request.topics
        (wanted,) = topic.partitions
        self.asked.append((topic.topic, topic.topic_id, wanted.fetch_offset))
        data = PartitionData(partition_index=0, high_watermark=5, last_stable_offset=5)
        if self.refusals or (not topic.topic and topic.topic_id != self.topic_id):
            self.refusals = max(self.refusals - 1, 0)
            data.error_code = self.refusal
        elif wanted.fetch_offset < 5:
            offset = wanted.fetch_offset
            records = [Record(each, 0, None, b"v%d" % each, ()) for each in range(offset, 5)]
            data.records = memoryview(encode_batch(records, base_offset=offset, leader_epoch=0))
        else:
            threading.Event().wait(0.01)
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=[data])]
        )


@contextmanager
def reading(topic: Topic, **properties: Any) -> Iterator[Consumer]:
    with topic.broker:
        named = {"bootstrap.servers": topic.broker.address, "retry.backoff.ms": 10, "auto.offset.reset": "earliest"}
        with Consumer(named | {key.replace("_", "."): value for key, value in properties.items()}) as consumer:
            consumer.assign([TP])
            yield consumer


def offsets(consumer: Consumer, count: int) -> list[int]:
    return [record.offset for record in take(consumer, count)]
