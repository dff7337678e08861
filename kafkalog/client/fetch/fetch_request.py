"""Fetch requests without a fetch session (KIP-227), and what their responses hold of one partition.

Since version 13 of Fetch, requests name topics by their ids and not by their names (KIP-516). So a topic that was
deleted and created again under its name is not taken for the old one. Where the metadata has no id of a topic, as with
brokers before 2.8, the whole request names topics by their names, as in Java (`FetchSessionHandler.Builder.build`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple
from uuid import UUID

from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import InvalidResponseError
from kafkalog.client.metadata import Broker, LeaderIdAndEpoch
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import ErrorCode, OffsetOutOfRangeError, error_for
from kafkalog.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kafkalog.protocol.schema import ZERO_UUID
from kafkalog.records.any_format import HEADER_SIZES
from kafkalog.records.batch import LAST_OFFSET_DELTA_AT, LOG_OVERHEAD, MAGIC, MAGIC_AT
from kafkalog.records.legacy.message_set import MIN_ENTRY_SIZE

MIN_VERSION = 4
"""Before version 4 of Fetch, brokers convert records to the formats before record batch v2."""
MAX_VERSION = 12
"""The newest version that names topics by their names."""
_NO_IDS: Mapping[TopicPartition, UUID] = {}
_OF_OTHERS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)
_START = Struct(">qi")
_INT32 = Struct(">i")
_NOTHING = memoryview(b"")


class FetchedRecords(NamedTuple):
    """The result of one fetch of one partition."""

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
    topic_ids: Mapping[TopicPartition, UUID] = _NO_IDS,
) -> FetchRequest:
    """Make a request without a session for (partition, offset, leader epoch), in this order.

    `max_wait` is in seconds. `topic_ids` are of use where they are there for all partitions: `max_version` tells in
    which versions the request may be sent.
    """
    topics: dict[tuple[str, UUID], FetchTopic] = {}
    for tp, offset, epoch in partitions:
        topic_id = topic_ids.get(tp, ZERO_UUID)
        topic = topics.setdefault((tp.topic, topic_id), FetchTopic(topic=tp.topic, topic_id=topic_id))
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


def max_version(request: FetchRequest) -> int | None:
    """Return the newest version in which a request may be sent; None for the newest one that both sides know."""
    return None if all(topic.topic_id != ZERO_UUID for topic in request.topics) else MAX_VERSION


def topic_of(answer: FetchableTopicResponse, names: Mapping[UUID, str]) -> str | None:
    """Return the name of a topic in a response; None for an id that `names` does not have."""
    return answer.topic or names.get(answer.topic_id)


def named_leaders(
    response: FetchResponse, names: Mapping[UUID, str]
) -> tuple[dict[TopicPartition, LeaderIdAndEpoch], list[Broker]]:
    """Return the leaders that a broker names for partitions that it does not lead (KIP-951), and their addresses."""
    leaders = {
        TopicPartition(name, each.partition_index): LeaderIdAndEpoch(
            each.current_leader.leader_id, each.current_leader.leader_epoch
        )
        for topic in response.responses
        for each in topic.partitions
        if each.error_code in _OF_OTHERS and min(each.current_leader.leader_id, each.current_leader.leader_epoch) >= 0
        if (name := topic_of(topic, names)) is not None
    }
    return leaders, [Broker(each.node_id, each.host, each.port, each.rack) for each in response.node_endpoints]


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
