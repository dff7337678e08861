"""Fetch requests without a fetch session (KIP-227), and what their responses hold of one partition.

Requests name topics, not topic ids, so the newest version of Fetch that they use is 12.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import InvalidResponseError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import OffsetOutOfRangeError, error_for
from kafkalog.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kafkalog.records.any_format import HEADER_SIZES
from kafkalog.records.batch import LAST_OFFSET_DELTA_AT, LOG_OVERHEAD, MAGIC, MAGIC_AT
from kafkalog.records.legacy.message_set import MIN_ENTRY_SIZE

MIN_VERSION = 4
"""Before version 4 of Fetch, brokers convert records to the formats before record batch v2."""
MAX_VERSION = 12
_START = Struct(">qi")
_INT32 = Struct(">i")
_NOTHING = memoryview(b"")


class FetchedRecords(NamedTuple):
    """What one fetch returned of one partition."""

    records: memoryview
    """Record batches as the log holds them, or messages of formats v0 and v1; a view of a buffer of its own. The first
    batch may begin before the requested offset, and the last one may be cut off."""
    high_watermark: int
    """-1 where the broker does not report it, as are the next two."""
    last_stable_offset: int
    """The end for read_committed."""
    log_start_offset: int
    """The first offset of the log."""
    aborted: list[tuple[int, int]]
    """The producer id and first offset of each aborted transaction in the records, for read_committed."""

    def next_offset(self, offset: int) -> int:
        """Return the next offset to fetch: after the last whole batch of these records, or `offset`."""
        buf, end, pos = self.records, len(self.records), 0
        while end - pos >= MIN_ENTRY_SIZE:
            base_offset, batch_length = _START.unpack_from(buf, pos)
            size, magic = LOG_OVERHEAD + batch_length, buf[pos + MAGIC_AT]
            if magic > MAGIC or not HEADER_SIZES[magic] <= size <= end - pos:
                break
            delta = _INT32.unpack_from(buf, pos + LAST_OFFSET_DELTA_AT)[0] if magic == MAGIC else 0
            offset = max(offset, base_offset + delta + 1)
            pos += size
        return offset


def fetch_request(
    partitions: Iterable[tuple[TopicPartition, int, int]],
    config: ClientConfig,
    *,
    max_bytes: int,
    partition_max_bytes: int,
    isolation_level: int,
    max_wait: float | None = None,
) -> FetchRequest:
    """Make a request without a session for (partition, offset, leader epoch), in this order.

    `max_wait` is in seconds.
    """
    topics: dict[str, FetchTopic] = {}
    for tp, offset, epoch in partitions:
        topic = topics.setdefault(tp.topic, FetchTopic(topic=tp.topic))
        topic.partitions.append(
            FetchPartition(
                partition=tp.partition,
                current_leader_epoch=epoch,
                fetch_offset=offset,
                partition_max_bytes=partition_max_bytes,
            )
        )
    return FetchRequest(
        replica_id=-1,
        max_wait_ms=round((config.fetch_max_wait if max_wait is None else max_wait) * 1000),
        min_bytes=config.fetch_min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation_level,
        session_epoch=-1,
        topics=list(topics.values()),
    )


def read_partition(tp: TopicPartition, data: PartitionData, offset: int) -> FetchedRecords:
    """Read a response's part about a partition that was fetched from `offset`.

    Raises:
        KafkaError: The response reports it.
    """
    if data.error_code:
        where = f"partition {tp} at offset {offset}"
        error = error_for(data.error_code)
        if isinstance(error, OffsetOutOfRangeError) and data.log_start_offset >= 0:
            where += f", whose log begins at {data.log_start_offset}"
        raise type(error)(f"{where}: {error.message}")
    aborted = [(each.producer_id, each.first_offset) for each in data.aborted_transactions or ()]
    records: memoryview = _NOTHING if data.records is None else data.records
    if len(records) and (
        len(records) < _START.size or not 0 <= _START.unpack_from(records)[1] <= len(records) - LOG_OVERHEAD
    ):
        # Since Fetch 3 the first batch is always whole, whatever its size. Without this check a reader would ask for it
        # for ever.
        raise InvalidResponseError(f"{tp} at offset {offset}: a response of {len(records)} bytes with no whole batch")
    return FetchedRecords(records, data.high_watermark, data.last_stable_offset, data.log_start_offset, aborted)
