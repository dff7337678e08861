"""Fetch responses of one partition, and answers about the ends of logs."""

from __future__ import annotations

from kafkalog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
)
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.records.batch import assign_offsets
from tests.support.wire import batch


def records(base_offset: int, values: list[bytes | None]) -> bytearray:
    made = batch(values)
    assign_offsets(made, 0, base_offset, 0)
    return made


def answer(error_code: int = 0, data: bytes | bytearray | None = b"", **fields: object) -> FetchResponse:
    partition = PartitionData(partition_index=0, error_code=error_code, records=data, **fields)  # type: ignore[arg-type]
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])


def begins_at_3(request: ListOffsetsRequest) -> ListOffsetsResponse:
    """All logs begin at 3."""
    found = [
        ListOffsetsPartitionResponse(partition_index=each.partition_index, offset=3)
        for each in request.topics[0].partitions
    ]
    return ListOffsetsResponse(topics=[ListOffsetsTopicResponse(name="t", partitions=found)])
