"""A broker of one topic whose answers to fetches a test scripts."""

from __future__ import annotations

from kafkalog.protocol.messages.fetch import FetchRequest
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.metadata import MetadataRequest
from tests.support.scripted import Handler, ScriptedBroker, metadata


def broker_of_topic(fetch: Handler, end: int = 9) -> ScriptedBroker:
    """Return a broker whose topic "t" has one partition, which ends at `end`."""

    def offsets(request: ListOffsetsRequest) -> ListOffsetsResponse:
        asked = request.topics[0].partitions[0].timestamp
        found = ListOffsetsPartitionResponse(partition_index=0, offset=end if asked == -1 else 0)
        return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=[found])])

    broker = ScriptedBroker({ListOffsetsRequest: offsets, FetchRequest: fetch})
    broker.handlers[MetadataRequest] = lambda request: metadata({1: broker}, {("t", 0): 1})
    return broker
