"""Fetch responses of one partition."""

from __future__ import annotations

from kafkalog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchResponse,
    PartitionData,
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
