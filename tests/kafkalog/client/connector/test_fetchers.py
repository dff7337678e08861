"""Threads that fetch for a stream: errors of partitions, and the end of errors."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kafkalog.client.config import ClientConfig
from kafkalog.client.connector.fetchers import Fetchers
from kafkalog.client.connector.lease import Lease
from kafkalog.client.connector.streams import MessageStream, PartitionState
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, UnknownServerError
from kafkalog.protocol.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.scripted import ScriptedBroker, metadata
from tests.support.waiting import wait_until
from tests.support.wire import batch


@contextmanager
def fetching(codes: dict[int, ErrorCode]) -> Iterator[MessageStream]:
    """A stream of partitions of topic t, which a broker answers with these errors."""

    def fetch(request: FetchRequest) -> FetchResponse:
        asked = [each.partition for topic in request.topics for each in topic.partitions]
        found = [PartitionData(partition_index=index, error_code=codes[index], records=b"") for index in asked]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=found)])

    with ScriptedBroker({FetchRequest: fetch}) as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, {("t", each): 1 for each in codes})
        lease = Lease(1000.0)
        lease.renew(time.monotonic())
        stream = MessageStream(2, 0.0, lease)
        partitions = [PartitionState(TopicPartition("t", each), 0) for each in codes]
        config = ClientConfig.from_dict({"bootstrap.servers": server.address, "retry.backoff.ms": 10})
        fetchers = Fetchers(config, 1)
        fetchers.start({stream: partitions})
        try:
            yield stream
        finally:
            stream.revoke(partitions)
            fetchers.stop()


def test_a_partition_without_a_leader_holds_up_no_other() -> None:
    """Neither has an offset. When the second one gets a leader, it is fetched, too."""
    leaders = {("t", 0): 1, ("t", 1): -1}
    asked: set[int] = set()

    def begins(request: ListOffsetsRequest) -> ListOffsetsResponse:
        rows = [each.partition_index for topic in request.topics for each in topic.partitions]
        asked.update(rows)
        found = [ListOffsetsPartitionResponse(partition_index=row, offset=0, timestamp=-1) for row in rows]
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])

    def fetch(request: FetchRequest) -> FetchResponse:
        rows = [(each.partition, each.fetch_offset) for topic in request.topics for each in topic.partitions]
        found = [
            PartitionData(
                partition_index=index, high_watermark=1, records=batch([b"%d" % index]) if offset == 0 else b""
            )
            for index, offset in rows
        ]
        return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=found)])

    with ScriptedBroker({FetchRequest: fetch, ListOffsetsRequest: begins}) as server:
        server.handlers[MetadataRequest] = lambda request: metadata({1: server}, leaders)
        lease = Lease(1000.0)
        lease.renew(time.monotonic())
        stream = MessageStream(2, 0.0, lease)
        partitions = [PartitionState(TopicPartition("t", each), None) for each in (0, 1)]
        config = ClientConfig.from_dict({"bootstrap.servers": server.address, "retry.backoff.ms": 10})
        fetchers = Fetchers(config, 1)
        fetchers.start({stream: partitions})
        try:
            assert [record.value for record in stream.poll(60.0, 1)] == [b"0"]
            assert asked == {0}
            leaders["t", 1] = 1
            assert [record.value for record in stream.poll(60.0, 1)] == [b"1"]
        finally:
            stream.revoke(partitions)
            fetchers.stop()


def fails(stream: MessageStream) -> bool:
    try:
        return stream.poll(0.0, 1) != []
    except UnknownServerError:
        return True


@pytest.mark.parametrize("others", [0, 1])
def test_an_error_is_over_when_the_partition_is_fetched_again(others: int) -> None:
    codes = dict.fromkeys(range(others), ErrorCode.NONE) | {others: ErrorCode.UNKNOWN_SERVER_ERROR}
    with fetching(codes) as stream:
        wait_until(lambda: fails(stream), "the error is told")
        with pytest.raises(UnknownServerError):
            stream.poll(60.0, 1)
        codes[others] = ErrorCode.NONE
        wait_until(lambda: not fails(stream), "nothing is told any more")
