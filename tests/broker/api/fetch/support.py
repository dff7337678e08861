"""Fetches of many partitions, and what their responses say of each."""

from __future__ import annotations

from typing import Any

from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.serving import TOPIC_ID

NEVER_MS = 1_000_000


def wanted(
    partitions: Any, session_id: int = 0, epoch: int = -1, wait_ms: int = 0, min_bytes: int = 1, **fields: Any
) -> FetchRequest:
    rows = [FetchPartition(partition=index, partition_max_bytes=1 << 20, **fields) for index in partitions]
    topics = [FetchTopic(topic="t", topic_id=TOPIC_ID, partitions=rows)] if rows else []
    return FetchRequest(
        replica_id=-1, max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=1 << 20, session_id=session_id,
        session_epoch=epoch, topics=topics,
    )  # fmt: skip


def told(response: Any) -> list[tuple[int, int, int, bytes]]:
    """Return the number, error, high watermark and bytes of each partition in a response."""
    return [
        (row.partition_index, row.error_code, row.high_watermark, _bytes(row.records))
        for topic in response.responses
        for row in topic.partitions
    ]


def _bytes(records: Any) -> bytes:
    return bytes(records.read() if hasattr(records, "read") else records)


def sizes(response: Any) -> dict[int, int]:
    return {index: len(records) for index, _, _, records in told(response) if records}
