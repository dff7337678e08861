"""The APIs of transactional producers: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn; WriteTxnMarkers of coordinators.

TxnOffsetCommit is the group coordinator's, InitProducerId is in `producer_ids`, the APIs of administrators are in
`transaction_admin`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from broker.api.authorization import TopicRights
from broker.api.context import Request
from broker.api.errors import error_code
from broker.coordinator.transaction.machine import Producer, TopicPartition
from broker.coordinator.transaction.markers import Marker
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    ErrorCode,
    GroupAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafkalog.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kafkalog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kafkalog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kafkalog.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkalog.storage.topics import CONSUMER_OFFSETS, INTERNAL_TOPICS

FENCED_SINCE = 2
"""From this version on, clients know PRODUCER_FENCED; older ones get INVALID_PRODUCER_EPOCH, its predecessor."""
BATCHED_SINCE = 4
"""Versions of AddPartitionsToTxn for brokers, with many transactions to verify or to add to."""
MOST_WAITING = 10_000
"""The most markers of a request that wait for their replicas. Coordinators send markers of fewer partitions."""
ABORTABLE_SINCE = 5
"""Versions of AddPartitionsToTxn whose sender knows TRANSACTION_ABORTABLE."""


def _code(error: Exception, *, knows_fenced: bool) -> ErrorCode:
    code = error_code(error)
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and not knows_fenced else code


# -- AddPartitionsToTxn


async def handle_add_partitions_to_txn(request: Request) -> None:
    message: AddPartitionsToTxnRequest = request.message
    if request.version < BATCHED_SINCE:
        transaction = AddPartitionsToTxnTransaction(
            transactional_id=message.v3_and_below_transactional_id,
            producer_id=message.v3_and_below_producer_id,
            producer_epoch=message.v3_and_below_producer_epoch,
            topics=message.v3_and_below_topics,
        )
        if not request.allows(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, transaction.transactional_id):
            refusal = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
            results = await _topic_results(request, transaction.topics, lambda _: refusal)
        else:
            results = await _add_partitions(request, transaction, TopicRights(request, AclOperation.WRITE))
        await request.answer(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=results))
        return
    if not request.allows_cluster(AclOperation.CLUSTER_ACTION):
        request.refuse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        return
    by_transaction = []
    async for transaction in request.each(message.transactions):
        results = await _add_partitions(request, transaction)
        by_transaction.append(
            AddPartitionsToTxnResult(transactional_id=transaction.transactional_id, topic_results=results)
        )
    await request.answer(AddPartitionsToTxnResponse(results_by_transaction=by_transaction))


async def _add_partitions(
    request: Request, transaction: AddPartitionsToTxnTransaction, rights: TopicRights | None = None
) -> list[AddPartitionsToTxnTopicResult]:
    """Add the partitions of a transaction to it, or verify them.

    Args:
        request: the request.
        transaction: the transaction and its partitions.
        rights: what the client may write to. Internal topics it may not; the coordinators of groups do. Brokers need
            none.
    """
    partitions: dict[TopicPartition, None] = {}
    refused: dict[TopicPartition, ErrorCode] = {}
    async for topic in request.each(transaction.topics):
        is_denied = rights is not None and (
            topic.name in INTERNAL_TOPICS or not rights.allow(topic.name, len(topic.partitions))
        )
        async for index in request.each(topic.partitions):
            partition = topic.name, index
            if is_denied:
                refused[partition] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif _exists(request, partition):
                partitions[partition] = None
            else:
                refused[partition] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if refused:
        # If one fails, all fail.
        def attempted(partition: TopicPartition) -> ErrorCode:
            return refused.get(partition, ErrorCode.OPERATION_NOT_ATTEMPTED)

        return await _topic_results(request, transaction.topics, attempted)
    producer = Producer(transaction.producer_id, transaction.producer_epoch)
    transactional_id = transaction.transactional_id
    if transaction.verify_only:
        verified = partial(_verify, request, transactional_id, producer)
        return await _topic_results(request, transaction.topics, verified)
    code = ErrorCode.NONE
    try:
        await request.broker.transactions.coordinator.add_partitions(transactional_id, producer, list(partitions))
    except Exception as error:
        code = _code(error, knows_fenced=request.version >= FENCED_SINCE)
    return await _topic_results(request, transaction.topics, lambda _: code)


def _verify(request: Request, transactional_id: str, producer: Producer, partition: TopicPartition) -> ErrorCode:
    try:
        request.broker.transactions.coordinator.verify(transactional_id, producer, partition)
    except Exception as error:
        code = error_code(error)
        # Brokers get PRODUCER_FENCED from each other; the broker that asked translates it for its client.
        return ErrorCode.PRODUCER_FENCED if code is ErrorCode.INVALID_PRODUCER_EPOCH else code
    return ErrorCode.NONE


def _exists(request: Request, partition: TopicPartition) -> bool:
    topic = request.broker.metadata.topic(partition[0])
    return topic is not None and 0 <= partition[1] < len(topic.partitions)


async def _topic_results(
    request: Request, topics: Sequence[AddPartitionsToTxnTopic], code_of: Callable[[TopicPartition], ErrorCode]
) -> list[AddPartitionsToTxnTopicResult]:
    results = []
    async for topic in request.each(topics):
        rows = [
            AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code_of((topic.name, index)))
            async for index in request.each(topic.partitions)
        ]
        results.append(AddPartitionsToTxnTopicResult(name=topic.name, results_by_partition=rows))
    return results


# -- AddOffsetsToTxn, EndTxn


def _check_transactional_id(request: Request) -> None:
    if not request.allows(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, request.message.transactional_id):
        raise TransactionalIdAuthorizationFailedError


async def handle_add_offsets_to_txn(request: Request) -> None:
    message: AddOffsetsToTxnRequest = request.message
    response = AddOffsetsToTxnResponse()
    try:
        _check_transactional_id(request)
        if not request.allows(AclOperation.READ, AclResourceType.GROUP, message.group_id):
            raise GroupAuthorizationFailedError
        await request.broker.groups.ready()
        index = request.broker.groups.partition_for(message.group_id)
        await request.broker.transactions.coordinator.add_partitions(
            message.transactional_id,
            Producer(message.producer_id, message.producer_epoch),
            [(CONSUMER_OFFSETS, index)],
        )
    except Exception as error:
        response.error_code = _code(error, knows_fenced=request.version >= FENCED_SINCE)
    request.reply(response)


async def handle_end_txn(request: Request) -> None:
    message: EndTxnRequest = request.message
    response = EndTxnResponse()
    try:
        _check_transactional_id(request)
        await request.broker.transactions.coordinator.end(
            message.transactional_id,
            Producer(message.producer_id, message.producer_epoch),
            committed=message.committed,
        )
    except Exception as error:
        response.error_code = _code(error, knows_fenced=request.version >= FENCED_SINCE)
    request.reply(response)


# -- WriteTxnMarkers


async def handle_write_txn_markers(request: Request) -> None:
    message: WriteTxnMarkersRequest = request.message
    if not (
        request.allows_cluster(AclOperation.ALTER, tells_denied=False)
        or request.allows_cluster(AclOperation.CLUSTER_ACTION)
    ):
        await _refuse_markers(request)
        return
    # Write all markers before waiting: one that is not replicated soon must not hold up those of other transactions.
    waiting: set[asyncio.Future[int]] = set()
    results = [await _write_marker(request, marker, waiting) async for marker in request.each(message.markers)]
    if waiting:
        await asyncio.wait(waiting)
    await request.answer(WriteTxnMarkersResponse(markers=results))


async def _refuse_markers(request: Request) -> None:
    """Answer CLUSTER_AUTHORIZATION_FAILED for each partition that is named."""
    message: WriteTxnMarkersRequest = request.message
    results = []
    async for marker in request.each(message.markers):
        result = WritableTxnMarkerResult(producer_id=marker.producer_id)
        async for topic in request.each(marker.topics):
            rows = [
                WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                )
                async for index in request.each(topic.partition_indexes)
            ]
            result.topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=rows))
        results.append(result)
    await request.answer(WriteTxnMarkersResponse(markers=results))


async def _write_marker(
    request: Request, wanted: WritableTxnMarker, waiting: set[asyncio.Future[int]]
) -> WritableTxnMarkerResult:
    """Write a marker to all of its partitions; return the result, which is complete once `waiting` is empty."""
    marker = Marker(wanted.producer_id, wanted.producer_epoch, wanted.transaction_result, wanted.coordinator_epoch)
    write = request.broker.transactions.markers.write
    indexes_of: dict[str, dict[int, None]] = {}
    async for topic in request.each(wanted.topics):
        indexes = indexes_of.setdefault(topic.name, {})
        async for index in request.each(topic.partition_indexes):
            indexes[index] = None
    topics = []
    for name, indexes in indexes_of.items():
        rows: list[WritableTxnMarkerPartitionResult] = []
        # The first append to a partition in an epoch of its leader forces a checkpoint to the disk.
        async for index in request.each(indexes):
            rows.append(_row(index, write(name, index, marker), waiting))
            if len(waiting) == MOST_WAITING:
                await asyncio.wait(waiting)
        topics.append(WritableTxnMarkerTopicResult(name=name, partitions=rows))
    return WritableTxnMarkerResult(producer_id=wanted.producer_id, topics=topics)


def _row(
    index: int, writing: asyncio.Future[int], waiting: set[asyncio.Future[int]]
) -> WritableTxnMarkerPartitionResult:
    """Return a partition's result, which gets its error once the marker is written; until then that is in `waiting`."""
    row = WritableTxnMarkerPartitionResult(partition_index=index, error_code=ErrorCode.NONE)

    def written(writing: asyncio.Future[int]) -> None:
        waiting.discard(writing)
        outcome = writing.exception()
        if isinstance(outcome, Exception):
            row.error_code = error_code(outcome)

    if writing.done():
        written(writing)
    else:
        waiting.add(writing)
        writing.add_done_callback(written)
    return row


HANDLERS = {
    AddPartitionsToTxnRequest: handle_add_partitions_to_txn,
    AddOffsetsToTxnRequest: handle_add_offsets_to_txn,
    EndTxnRequest: handle_end_txn,
    WriteTxnMarkersRequest: handle_write_txn_markers,
}
