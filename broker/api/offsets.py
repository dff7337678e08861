"""ListOffsets (key 2), OffsetForLeaderEpoch (key 23) and DeleteRecords (key 21): positions in a log."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from broker.api.authorization import TopicRights
from broker.api.context import Request
from broker.api.errors import Answering, error_code
from broker.log.log import Log
from broker.log.read.log_reader import MAX_TIMESTAMP
from broker.log.read.segment_times import Unread, read_unread, unknown_largest
from broker.log.read.time_search import TimestampOffset
from broker.replica.isolation import FetchIsolation
from broker.replica.partition import Partition
from broker.replica.purgatory import DelayedOperation
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.errors import (
    ErrorCode,
    InvalidRequestError,
    InvalidTopicError,
    LeaderNotAvailableError,
    OffsetNotAvailableError,
    TopicAuthorizationFailedError,
    UnsupportedForMessageFormatError,
    UnsupportedVersionError,
)
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kafkalog.storage.topics import INTERNAL_TOPICS

LATEST, EARLIEST, EARLIEST_LOCAL, LATEST_TIERED = -1, -2, -4, -5
SINCE = {LATEST: 1, EARLIEST: 1, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The first version in which each negative timestamp has its meaning."""
UNKNOWN = -1
CONSUMER = -1
"""The replica id of clients."""
DEBUGGING_REPLICA = -2
"""The replica id of tools, and of a controller, that ask any replica: not only the leader answers."""
READ_IN_STEPS = 8
"""A worker reads missing pages this number of times. Then the search goes ahead, even if some are missing again."""
FIRST_WITH_LEADER_EPOCH = 4
FIRST_WITH_NOT_AVAILABLE = 5
"""Clients of earlier versions do not know OFFSET_NOT_AVAILABLE (KIP-207)."""


async def handle_list_offsets(request: Request) -> None:
    message: ListOffsetsRequest = request.message
    counts = Counter[tuple[str, int]]()
    async for topic in request.each(message.topics):
        async for wanted in request.each(topic.partitions):
            counts[topic.name, wanted.partition_index] += 1
    isolation = FetchIsolation.of(message.replica_id, message.isolation_level)
    topics = []
    rights = _rights(request, is_from_broker=message.replica_id != CONSUMER)
    async for topic in request.each(message.topics):
        results = []
        is_allowed = rights.allow(topic.name, len(topic.partitions))
        async for wanted in request.each(topic.partitions):
            result = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
            with Answering(result), _mapped_for(request.version):
                if not is_allowed:
                    raise TopicAuthorizationFailedError
                _check(request.version, wanted.timestamp, counts[topic.name, wanted.partition_index])
                if message.replica_id == DEBUGGING_REPLICA and wanted.timestamp == LATEST and request.version > 0:
                    _tell_log_end(request, topic.name, wanted.partition_index, result)
                else:
                    partition = request.broker.replicas.require(topic.name, wanted.partition_index)
                    await _answer(request, partition, wanted, isolation, result)
                if request.version < FIRST_WITH_LEADER_EPOCH:
                    result.leader_epoch = UNKNOWN
            results.append(result)
        topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=results))
    await request.answer(ListOffsetsResponse(topics=topics), counts)


def _rights(request: Request, *, is_from_broker: bool) -> TopicRights:
    """Return which topics the client may describe: all of them if it is another broker of the cluster."""
    is_broker = is_from_broker and request.allows_cluster(AclOperation.CLUSTER_ACTION, tells_denied=False)
    return TopicRights(request, AclOperation.DESCRIBE, all_allowed=is_broker)


async def _answer(
    request: Request,
    partition: Partition,
    wanted: ListOffsetsPartition,
    isolation: FetchIsolation,
    result: ListOffsetsPartitionResponse,
) -> None:
    partition.check_leader_epoch(wanted.current_leader_epoch)
    if request.version == 0:
        result.old_style_offsets = _offsets_before(request, partition, wanted)
        return
    if wanted.timestamp >= 0 or wanted.timestamp == MAX_TIMESTAMP:
        found = await _find(request, partition.log, wanted.timestamp)
        _tell_found(partition, found, isolation, result)
    else:
        _look_up(partition, wanted.timestamp, isolation, result)


async def _find(request: Request, log: Log, timestamp: int) -> TimestampOffset | None:
    """Search for a record by its time. Workers read the disk and decompress, so that other requests do not wait."""
    if log.config.message_format == 0:
        raise UnsupportedForMessageFormatError
    await _read_in(request, log, timestamp)
    # The search may walk over the headers of many batches.
    await asyncio.sleep(0)
    for batch in log.time_search(timestamp):
        found = batch.find() if batch.is_small else await request.broker.workers.run(batch.find)
        if found is not None:
            return found
    return None


async def _read_in(request: Request, log: Log, timestamp: int) -> None:
    """Have workers read the pages for a search by timestamp, so that other requests do not wait for the disk."""
    workers = request.broker.workers
    await read_unread(workers, lambda unreadable: [Unread(unknown_largest(log.segments, unreadable=unreadable))])
    for _ in range(READ_IN_STEPS):
        work = log.missing_for_time(timestamp)
        if work is None:
            return
        await workers.run(work)


@contextmanager
def _mapped_for(version: int) -> Iterator[None]:
    """Tell clients before KIP-207 that the leader is not available, instead of an error that they do not know."""
    try:
        yield
    except OffsetNotAvailableError as error:
        if version >= FIRST_WITH_NOT_AVAILABLE:
            raise
        raise LeaderNotAvailableError(error.message) from error


def _check(version: int, timestamp: int, count: int) -> None:
    if count > 1:
        raise InvalidRequestError
    if version > 0 and timestamp < 0 and version < SINCE.get(timestamp, version + 1):
        raise UnsupportedVersionError


def _look_up(
    partition: Partition, timestamp: int, isolation: FetchIsolation, result: ListOffsetsPartitionResponse
) -> None:
    log = partition.log
    if timestamp == LATEST:
        # The epoch is unknown if messages of v0 or v1 have none: a consumer would ask in vain where it ended.
        result.offset = partition.latest_offset(isolation)
        result.leader_epoch = partition.leader_epoch if log.latest_epoch >= 0 else UNKNOWN
    elif timestamp in (EARLIEST, EARLIEST_LOCAL):
        result.offset = log.log_start_offset
        result.leader_epoch = log.earliest_offset().leader_epoch
    elif timestamp == LATEST_TIERED:
        # No segments are tiered to remote storage.
        result.offset = UNKNOWN


def _tell_found(
    partition: Partition,
    found: TimestampOffset | None,
    isolation: FetchIsolation,
    result: ListOffsetsPartitionResponse,
) -> None:
    """Tell of the record that a search by time has found, if the client may read it."""
    if found is not None and found.offset < partition.end_for(isolation):
        result.timestamp, result.offset, result.leader_epoch = found
    else:
        partition.check_end_known(isolation)


def _tell_log_end(request: Request, topic: str, index: int, result: ListOffsetsPartitionResponse) -> None:
    """Tell where the log of a replica ends, be it in use or not yet, and the leader epoch of its last record.

    Apache Kafka tells the epoch of the replica's role instead.

    Raises:
        KafkaStorageError, NotLeaderOrFollowerError, UnknownTopicOrPartitionError: there is no such log, or it cannot be
            used; see `ReplicaManager.require`.
    """
    replicas = request.broker.replicas
    log = replicas.logs.get(topic, index)
    if log is None or log.offline is not None or replicas.get(topic, index) is not None:
        log = replicas.require(topic, index).log
    result.offset = log.log_end_offset
    is_empty = log.log_end_offset <= log.log_start_offset
    result.leader_epoch = log.latest_epoch if is_empty else log.epochs.epoch_for_offset(log.log_end_offset - 1)


def _offsets_before(request: Request, partition: Partition, wanted: ListOffsetsPartition) -> list[int]:
    """Return base offsets of segments begun before a time, newest first, at most `max_num_offsets`: version 0."""
    offsets = partition.log.legacy_offsets_before(wanted.timestamp, wanted.max_num_offsets, request.broker.now_ms())
    return [min(offset, partition.high_watermark) for offset in offsets]


async def handle_offset_for_leader_epoch(request: Request) -> None:
    message: OffsetForLeaderEpochRequest = request.message
    topics = []
    rights = _rights(request, is_from_broker=True)
    async for topic in request.each(message.topics):
        results = []
        is_allowed = rights.allow(topic.topic, len(topic.partitions))
        async for wanted in request.each(topic.partitions):
            result = EpochEndOffset(partition=wanted.partition)
            with Answering(result):
                if not is_allowed:
                    raise TopicAuthorizationFailedError
                partition = request.broker.replicas.require(topic.topic, wanted.partition)
                partition.check_leader_epoch(wanted.current_leader_epoch)
                result.leader_epoch, result.end_offset = partition.log.end_offset_for_epoch(wanted.leader_epoch)
            results.append(result)
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=results))
    await request.answer(OffsetForLeaderEpochResponse(topics=topics))


async def handle_delete_records(request: Request) -> None:
    message: DeleteRecordsRequest = request.message
    topics = []
    has_deleted = False
    waiting: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = []
    try:
        rights = TopicRights(request, AclOperation.DELETE)
        async for topic in request.each(message.topics):
            results = []
            is_allowed = rights.allow(topic.name, len(topic.partitions))
            async for wanted in request.each(topic.partitions):
                result = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=UNKNOWN)
                with Answering(result):
                    if not is_allowed:
                        raise TopicAuthorizationFailedError
                    if topic.name in INTERNAL_TOPICS:
                        raise InvalidTopicError
                    partition = request.broker.replicas.require(topic.name, wanted.partition_index)
                    start = partition.delete_records(wanted.offset)
                    result.low_watermark = partition.low_watermark
                    has_deleted = True
                    if result.low_watermark < start:
                        waiting.append((partition, start, result))
                results.append(result)
            topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
    finally:
        if has_deleted:
            request.broker.log_starts_changed()
    if waiting:
        await _deleted_everywhere(request, waiting)
    await request.answer(DeleteRecordsResponse(topics=topics))


async def _deleted_everywhere(
    request: Request, waiting: list[tuple[Partition, int, DeleteRecordsPartitionResult]]
) -> None:
    """Wait until the followers have deleted the records, too, or the time of the request is over."""
    done = request.broker.loop.create_future()
    operation = DelayedDeletion(waiting, done)
    if operation.try_complete():
        return
    request.connection.state = operation
    keys = [partition.key for partition, _, _ in waiting]
    purgatory = request.broker.replicas.deletion_purgatory
    purgatory.watch(operation, keys, max(0, request.message.timeout_ms) / 1000)
    await done
    request.take_turns().begin()


class DelayedDeletion(DelayedOperation):
    """A deletion of records that followers have not carried out yet. It sets the results, and then `done`."""

    __slots__ = ("_done", "_waiting")

    def __init__(
        self, waiting: list[tuple[Partition, int, DeleteRecordsPartitionResult]], done: asyncio.Future[None]
    ) -> None:
        super().__init__()
        self._waiting = waiting
        self._done = done

    def try_complete(self) -> bool:
        left = []
        for partition, start, result in self._waiting:
            result.low_watermark = partition.low_watermark
            if not partition.is_leader:
                result.error_code, result.low_watermark = ErrorCode.NOT_LEADER_OR_FOLLOWER, UNKNOWN
            elif result.low_watermark < start:
                left.append((partition, start, result))
        self._waiting = left
        if not left:
            self._end()
        return not left

    def expire(self) -> None:
        for _, _, result in self._waiting:
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._end()

    def fail(self, error: Exception) -> None:
        for _, _, result in self._waiting:
            result.error_code = error_code(error)
        self._end()

    def cancel(self) -> None:
        """End without an answer, because the client is gone."""
        super().cancel()
        self._end()

    def _end(self) -> None:
        if not self._done.done():
            self._done.set_result(None)


HANDLERS = {
    ListOffsetsRequest: handle_list_offsets,
    OffsetForLeaderEpochRequest: handle_offset_for_leader_epoch,
    DeleteRecordsRequest: handle_delete_records,
}
