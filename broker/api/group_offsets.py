"""Offsets of groups: OffsetCommit (key 8), OffsetFetch (9), OffsetDelete (47) and TxnOffsetCommit (28).

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION without asking the coordinator, as in Kafka.
OffsetCommit and OffsetFetch of version 0, which were about offsets in ZooKeeper, go to the coordinator like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from broker.api.context import Broker, Request
from broker.api.errors import error_code
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import Committed, TopicPartition
from broker.coordinator.group.service import Admit, FetchedOffset
from broker.replica.partition import Partition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages import offset_commit, offset_delete, offset_fetch, txn_offset_commit

GROUPS_SINCE = 8
"""Versions of OffsetFetch that ask for many groups."""
ERROR_SINCE = 2
"""Versions of OffsetFetch that tell a group's error once; before, every partition has it."""
ABORTABLE_SINCE = 4
"""Versions of TxnOffsetCommit whose clients know TRANSACTION_ABORTABLE."""
LOADING_SINCE = 2
"""Versions of TxnOffsetCommit whose clients know COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
NO_OFFSET = -1
LAST_TIMESTAMP = (1 << 63) - 1


def _exists(broker: Broker, topic: str, index: int) -> bool:
    state = broker.metadata.topic(topic)
    return state is not None and 0 <= index < len(state.partitions)


def _all_failed(wanted: Iterable[TopicPartition], code: ErrorCode) -> dict[TopicPartition, ErrorCode]:
    return dict.fromkeys(wanted, code)


def _unknown(broker: Broker, topics: Iterable[Any]) -> dict[TopicPartition, ErrorCode]:
    return {at: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for at, _ in _each(topics) if not _exists(broker, *at)}


def _each(topics: Iterable[Any]) -> Iterator[tuple[TopicPartition, Any]]:
    """The partitions of a request, each with what it says of it."""
    for topic in topics:
        for partition in topic.partitions:
            yield (topic.name, partition.partition_index), partition


def _answers(
    topics: Iterable[Any], errors: Mapping[TopicPartition, ErrorCode], topic_kind: Any, partition_kind: Any
) -> list[Any]:
    """How it went with each partition of a request, in its order."""
    return [
        topic_kind(
            name=topic.name,
            partitions=[
                partition_kind(partition_index=index, error_code=errors.get((name, index), ErrorCode.NONE))
                for (name, index), _ in _each([topic])
            ],
        )
        for topic in topics
    ]


# -- OffsetCommit


async def handle_offset_commit(request: Request) -> None:
    message: offset_commit.OffsetCommitRequest = request.message
    broker = request.broker
    now_ms = broker.now_ms()
    retention_ms = message.retention_time_ms
    errors = _unknown(broker, message.topics)
    offsets = {
        at: Committed(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            timestamp=now_ms if partition.commit_timestamp == -1 else partition.commit_timestamp,
            expires=-1 if retention_ms == -1 else min(now_ms + retention_ms, LAST_TIMESTAMP),
        )
        for at, partition in _each(message.topics)
        if at not in errors
    }
    if offsets:
        committing = CommitRequest(
            message.member_id, message.group_instance_id, message.generation_id_or_member_epoch, request.version
        )
        try:
            if request.version == 0:
                await broker.groups.ready()
            errors |= await broker.groups.commit(message.group_id, committing, offsets)
        except Exception as error:
            errors |= _all_failed(offsets, error_code(error))
    kinds = offset_commit.OffsetCommitResponseTopic, offset_commit.OffsetCommitResponsePartition
    request.reply(offset_commit.OffsetCommitResponse(topics=_answers(message.topics, errors, *kinds)))


# -- TxnOffsetCommit


async def handle_txn_offset_commit(request: Request) -> None:
    message: txn_offset_commit.TxnOffsetCommitRequest = request.message
    broker = request.broker
    now_ms = broker.now_ms()
    errors = _unknown(broker, message.topics)
    offsets = {
        at: Committed(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            timestamp=now_ms,
        )
        for at, partition in _each(message.topics)
        if at not in errors
    }
    if offsets:
        committing = CommitRequest(
            message.member_id, message.group_instance_id, message.generation_id, request.version, transactional=True
        )
        producer = (message.producer_id, message.producer_epoch)
        try:
            admit = _admission(request)
            errors |= await broker.groups.commit(message.group_id, committing, offsets, producer, admit)
        except Exception as error:
            errors |= _all_failed(offsets, _txn_code(request, error_code(error)))
    kinds = txn_offset_commit.TxnOffsetCommitResponseTopic, txn_offset_commit.TxnOffsetCommitResponsePartition
    request.reply(txn_offset_commit.TxnOffsetCommitResponse(topics=_answers(message.topics, errors, *kinds)))


def _admission(request: Request) -> Admit:
    """What checks that the producer's transaction covers the group's partition of ``__consumer_offsets``."""
    message: txn_offset_commit.TxnOffsetCommitRequest = request.message

    def admit(partition: Partition) -> None:
        request.broker.transactions.admit(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            partition,
            abortable=request.version >= ABORTABLE_SINCE,
        )

    return admit


def _txn_code(request: Request, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


# -- OffsetFetch


async def handle_offset_fetch(request: Request) -> None:
    message: offset_fetch.OffsetFetchRequest = request.message
    if request.version >= GROUPS_SINCE:
        groups = [_fetch_group(request, group) for group in message.groups]
        request.reply(offset_fetch.OffsetFetchResponse(groups=groups))
        return
    response = offset_fetch.OffsetFetchResponse()
    wanted = None if message.topics is None else _wanted(message.topics)
    try:
        if request.version == 0:
            await request.broker.groups.ready()
        found = request.broker.groups.fetch_offsets(message.group_id, wanted, require_stable=message.require_stable)
    except Exception as error:
        code = error_code(error)
        found = []
        if request.version >= ERROR_SINCE:
            response.error_code = code
        else:
            found = [FetchedOffset(topic, index, None, code) for topic, index in wanted or ()]
    for name, offsets in _by_topic(found):
        partitions = [_partition(request, offset, offset_fetch.OffsetFetchResponsePartition) for offset in offsets]
        response.topics.append(offset_fetch.OffsetFetchResponseTopic(name=name, partitions=partitions))
    request.reply(response)


def _fetch_group(
    request: Request, group: offset_fetch.OffsetFetchRequestGroup
) -> offset_fetch.OffsetFetchResponseGroup:
    response = offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id)
    try:
        found = request.broker.groups.fetch_offsets(
            group.group_id,
            None if group.topics is None else _wanted(group.topics),
            require_stable=request.message.require_stable,
            member_id=group.member_id,
            member_epoch=group.member_epoch,
        )
    except Exception as error:
        response.error_code = error_code(error)
        return response
    for name, offsets in _by_topic(found):
        partitions = [_partition(request, offset, offset_fetch.OffsetFetchResponsePartitions) for offset in offsets]
        response.topics.append(offset_fetch.OffsetFetchResponseTopics(name=name, partitions=partitions))
    return response


def _wanted(topics: Iterable[Any]) -> list[TopicPartition]:
    return [(topic.name, index) for topic in topics for index in topic.partition_indexes]


def _by_topic(found: Iterable[FetchedOffset]) -> Iterable[tuple[str, list[FetchedOffset]]]:
    topics: dict[str, list[FetchedOffset]] = {}
    for offset in found:
        topics.setdefault(offset.topic, []).append(offset)
    return topics.items()


def _partition(request: Request, found: FetchedOffset, kind: Any) -> Any:
    committed = found.committed
    if committed is None:
        code = found.error
        if request.version == 0 and code is ErrorCode.NONE:
            # What ZooKeeper had nothing of.
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return kind(
            partition_index=found.partition,
            committed_offset=NO_OFFSET,
            committed_leader_epoch=-1,
            metadata="",
            error_code=code,
        )
    return kind(
        partition_index=found.partition,
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=found.error,
    )


# -- OffsetDelete


async def handle_offset_delete(request: Request) -> None:
    message: offset_delete.OffsetDeleteRequest = request.message
    broker = request.broker
    errors = _unknown(broker, message.topics)
    wanted = [at for at, _ in _each(message.topics) if at not in errors]
    try:
        errors |= await broker.groups.delete_offsets(message.group_id, wanted)
    except Exception as error:
        request.reply(offset_delete.OffsetDeleteResponse(error_code=error_code(error)))
        return
    kinds = offset_delete.OffsetDeleteResponseTopic, offset_delete.OffsetDeleteResponsePartition
    request.reply(offset_delete.OffsetDeleteResponse(topics=_answers(message.topics, errors, *kinds)))


HANDLERS = {
    offset_commit.OffsetCommitRequest: handle_offset_commit,
    txn_offset_commit.TxnOffsetCommitRequest: handle_txn_offset_commit,
    offset_fetch.OffsetFetchRequest: handle_offset_fetch,
    offset_delete.OffsetDeleteRequest: handle_offset_delete,
}
