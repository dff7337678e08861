"""Offsets of groups: OffsetCommit (key 8), OffsetFetch (9), OffsetDelete (47) and TxnOffsetCommit (28).

Partitions that do not exist are answered UNKNOWN_TOPIC_OR_PARTITION without asking the coordinator, as in Kafka.
OffsetCommit and OffsetFetch of version 0 are about offsets in ZooKeeper. A lone broker has none: there they go to the
coordinator like the others.

Requests of many entries are worked through in turns with other requests (`large.Turns`). All the same, a group's
offsets are answered as they were when the handler came to the group, and a commit is stored in one batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from broker.api.authorization import TopicRights
from broker.api.context import Broker, Request
from broker.api.errors import error_code
from broker.api.large import Turn
from broker.coordinator.group.membership import CommitRequest
from broker.coordinator.group.offsets import Committed, GroupOffsets, OffsetsView, TopicPartition
from broker.coordinator.group.service import Admit
from broker.coordinator.transaction.service import Verified
from broker.member.group_offsets import GroupOffsetNodes
from broker.replica.partition import Partition
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import ErrorCode, GroupAuthorizationFailedError
from kafkalog.protocol.messages import offset_commit, offset_delete, offset_fetch, txn_offset_commit

GROUPS_SINCE = 8
"""Versions of OffsetFetch that have several groups in one request."""
ERROR_SINCE = 2
"""Versions of OffsetFetch that return a group's error once; in earlier versions every partition has it."""
ABORTABLE_SINCE = 4
"""Versions of TxnOffsetCommit whose clients know TRANSACTION_ABORTABLE."""
LOADING_SINCE = 2
"""Versions of TxnOffsetCommit whose clients know COORDINATOR_LOAD_IN_PROGRESS (KAFKA-7296)."""
NO_OFFSET = -1
LAST_TIMESTAMP = (1 << 63) - 1


Topics = Iterable[Any]
"""Topics of a request, each with its partitions: the structures of several messages have the same fields."""


def _exists(broker: Broker, topic: str, index: int) -> bool:
    state = broker.metadata.topic(topic)
    return state is not None and 0 <= index < len(state.partitions)


async def _existing(request: Request, rights: TopicRights, turn: Turn) -> dict[TopicPartition, Any]:
    """Return the partitions of a request that exist and are allowed, each with the last of its entries in the request.

    There are at most as many as the cluster has, however many the request names.
    """
    found: dict[TopicPartition, Any] = {}
    for topic in request.message.topics:
        if turn.is_over:
            await turn.end()
        if not rights.allow(topic.name, len(topic.partitions)):
            continue
        for partition in topic.partitions:
            if _exists(request.broker, topic.name, partition.partition_index):
                found[topic.name, partition.partition_index] = partition
            if turn.is_over:
                await turn.end()
    return found


async def _refused(topics: Topics, code: ErrorCode, kinds: tuple[Any, Any], turn: Turn) -> list[Any]:
    """Return one error for all partitions of a request: about it as a whole, or before anything is looked up."""
    return await _answers(topics, {}, None, kinds, turn, otherwise=code)


async def _answers(
    topics: Topics,
    codes: Mapping[TopicPartition, ErrorCode],
    rights: TopicRights | None,
    kinds: tuple[Any, Any],
    turn: Turn,
    *,
    otherwise: ErrorCode = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
) -> list[Any]:
    """Return the results of the partitions of a request, in its order; partitions without a code do not exist.

    Those of topics that the `rights` do not allow are answered TOPIC_AUTHORIZATION_FAILED, whether they exist or not.
    """
    topic_kind, partition_kind = kinds
    answers = []
    for topic in topics:
        partitions: list[Any] = []
        answers.append(topic_kind(name=topic.name, partitions=partitions))
        if turn.is_over:
            await turn.end()
        is_denied = rights is not None and not rights.allow(topic.name)
        default = ErrorCode.TOPIC_AUTHORIZATION_FAILED if is_denied else otherwise
        for partition in topic.partitions:
            index = partition.partition_index
            code = codes.get((topic.name, index), default)
            partitions.append(partition_kind(partition_index=index, error_code=code))
            if turn.is_over:
                await turn.end()
    return answers


# -- OffsetCommit


async def handle_offset_commit(request: Request) -> None:
    message: offset_commit.OffsetCommitRequest = request.message
    broker, turn = request.broker, request.take_turns()
    kinds = offset_commit.OffsetCommitResponseTopic, offset_commit.OffsetCommitResponsePartition
    if not request.allows(AclOperation.READ, AclResourceType.GROUP, message.group_id):
        answers = await _refused(message.topics, ErrorCode.GROUP_AUTHORIZATION_FAILED, kinds, turn)
        await request.answer(offset_commit.OffsetCommitResponse(topics=answers))
        return
    rights = TopicRights(request, AclOperation.READ)
    now_ms = broker.now_ms()
    retention_ms = message.retention_time_ms
    expires = -1 if retention_ms == -1 else min(now_ms + retention_ms, LAST_TIMESTAMP)
    offsets: dict[TopicPartition, Committed] = {}
    for at, partition in (await _existing(request, rights, turn)).items():
        timestamp = now_ms if partition.commit_timestamp == -1 else partition.commit_timestamp
        offsets[at] = _committed(partition, timestamp, expires)
        if turn.is_over:
            await turn.end()
    codes = dict.fromkeys(offsets, ErrorCode.NONE)
    if offsets:
        committing = CommitRequest(
            message.member_id, message.group_instance_id, message.generation_id_or_member_epoch, request.version
        )
        try:
            if request.version == 0 and broker.member is not None:
                codes |= await _commit_to_zookeeper(request, broker.member.group_offsets, offsets)
            else:
                if request.version == 0:
                    await broker.groups.ready()
                codes |= await broker.groups.commit(message.group_id, committing, offsets)
        except Exception as error:
            codes = dict.fromkeys(offsets, error_code(error))
        turn.begin()
    answers = await _answers(message.topics, codes, rights, kinds, turn)
    await request.answer(offset_commit.OffsetCommitResponse(topics=answers))


async def _commit_to_zookeeper(
    request: Request, nodes: GroupOffsetNodes, offsets: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, ErrorCode]:
    """Store offsets as nodes, which have no metadata; return the errors of those that are not stored."""
    limit = request.broker.groups.config["offset.metadata.max.bytes"]
    fitting = {at: each.offset for at, each in offsets.items() if len(each.metadata) <= limit}
    await nodes.commit(request.message.group_id, fitting)
    return {at: ErrorCode.OFFSET_METADATA_TOO_LARGE for at in offsets if at not in fitting}


def _committed(partition: Any, timestamp: int, expires: int = -1) -> Committed:
    return Committed(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        timestamp=timestamp,
        expires=expires,
    )


# -- TxnOffsetCommit


async def handle_txn_offset_commit(request: Request) -> None:
    message: txn_offset_commit.TxnOffsetCommitRequest = request.message
    broker, turn = request.broker, request.take_turns()
    kinds = txn_offset_commit.TxnOffsetCommitResponseTopic, txn_offset_commit.TxnOffsetCommitResponsePartition
    refusal = _txn_refusal(request)
    if refusal is not ErrorCode.NONE:
        answers = await _refused(message.topics, refusal, kinds, turn)
        await request.answer(txn_offset_commit.TxnOffsetCommitResponse(topics=answers))
        return
    rights = TopicRights(request, AclOperation.READ)
    now_ms = broker.now_ms()
    offsets: dict[TopicPartition, Committed] = {}
    for at, partition in (await _existing(request, rights, turn)).items():
        offsets[at] = _committed(partition, now_ms)
        if turn.is_over:
            await turn.end()
    codes = dict.fromkeys(offsets, ErrorCode.NONE)
    if offsets:
        committing = CommitRequest(
            message.member_id, message.group_instance_id, message.generation_id, request.version, transactional=True
        )
        producer = (message.producer_id, message.producer_epoch)
        try:
            async with broker.transactions.verified(message.transactional_id, _unverified(request)) as verified:
                admit = _admission(request, verified)
                codes |= await broker.groups.commit(message.group_id, committing, offsets, producer, admit)
        except Exception as error:
            codes = dict.fromkeys(offsets, _txn_code(request, error_code(error)))
        turn.begin()
    answers = await _answers(message.topics, codes, rights, kinds, turn)
    await request.answer(txn_offset_commit.TxnOffsetCommitResponse(topics=answers))


def _txn_refusal(request: Request) -> ErrorCode:
    message: txn_offset_commit.TxnOffsetCommitRequest = request.message
    if not request.allows(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, message.transactional_id):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not request.allows(AclOperation.READ, AclResourceType.GROUP, message.group_id):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _admission(request: Request, verified: Verified) -> Admit:
    """Return a check that the producer's transaction covers the group's partition of `__consumer_offsets`."""
    message: txn_offset_commit.TxnOffsetCommitRequest = request.message

    def admit(partition: Partition) -> None:
        request.broker.transactions.admit(
            message.transactional_id,
            message.producer_id,
            message.producer_epoch,
            partition,
            verified,
            abortable=request.version >= ABORTABLE_SINCE,
        )

    return admit


def _unverified(request: Request) -> list[tuple[int, int, Partition]]:
    """Return producer and partition, if the coordinator of the transaction is another broker and has to be asked."""
    message: txn_offset_commit.TxnOffsetCommitRequest = request.message
    broker, producer = request.broker, (message.producer_id, message.producer_epoch)
    partition = broker.groups.partition_groups_for(message.group_id).partition
    return (
        [(*producer, partition)] if broker.transactions.must_ask(message.transactional_id, *producer, partition) else []
    )


def _txn_code(request: Request, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and request.version < LOADING_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code


# -- OffsetFetch


async def handle_offset_fetch(request: Request) -> None:
    message: offset_fetch.OffsetFetchRequest = request.message
    turn = request.take_turns()
    if request.version >= GROUPS_SINCE:
        await _fetch_groups(request, turn)
        return
    response = offset_fetch.OffsetFetchResponse()
    topics = message.topics
    has_failed = False
    member = request.broker.member
    try:
        if not request.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, message.group_id):
            raise GroupAuthorizationFailedError
        if request.version == 0 and member is not None:
            offsets = await _fetch_from_zookeeper(request, member.group_offsets, turn)
        else:
            if request.version == 0:
                await request.broker.groups.ready()
            offsets = request.broker.groups.offsets_of(message.group_id, require_stable=message.require_stable)
    except Exception as error:
        code, has_failed = error_code(error), True
        if request.version >= ERROR_SINCE:
            response.error_code = code
            topics = []
        offsets = OffsetsView(None, error=code)
    kinds = offset_fetch.OffsetFetchResponseTopic, offset_fetch.OffsetFetchResponsePartition
    response.topics = await _fetched(request, offsets, topics, kinds, turn, has_failed=has_failed)
    await request.answer(response)


async def _fetch_from_zookeeper(request: Request, nodes: GroupOffsetNodes, turn: Turn) -> OffsetsView:
    """Return the offsets of a group that are nodes, of those partitions of the request that exist."""
    wanted: set[TopicPartition] = set()
    for at in _wanted(request.message.topics):
        if at is not None and _exists(request.broker, *at):
            wanted.add(at)
        if turn.is_over:
            await turn.end()
    found = GroupOffsets()
    for at, offset in (await nodes.fetch(request.message.group_id, wanted)).items():
        found.committed[at] = Committed(offset=offset, leader_epoch=-1, metadata="", timestamp=-1)
    turn.begin()
    return OffsetsView(found)


async def _fetch_groups(request: Request, turn: Turn) -> None:
    message: offset_fetch.OffsetFetchRequest = request.message
    response = offset_fetch.OffsetFetchResponse()
    kinds = offset_fetch.OffsetFetchResponseTopics, offset_fetch.OffsetFetchResponsePartitions
    whole: set[str] = set()
    for group in message.groups:
        if turn.is_over:
            await turn.end()
            if request.connection.closed:
                return
        if group.topics is None:
            if group.group_id in whole:
                # All committed offsets are returned once: a short request must not be able to ask for them a million
                # times.
                continue
            whole.add(group.group_id)
        answer = offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id)
        response.groups.append(answer)
        try:
            if not request.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id):
                raise GroupAuthorizationFailedError
            offsets = request.broker.groups.offsets_of(
                group.group_id,
                require_stable=message.require_stable,
                member_id=group.member_id,
                member_epoch=group.member_epoch,
            )
        except Exception as error:
            answer.error_code = error_code(error)
            continue
        answer.topics = await _fetched(request, offsets, group.topics, kinds, turn)
    await request.answer(response, whole)


async def _fetched(
    request: Request,
    offsets: OffsetsView,
    topics: Topics | None,
    kinds: tuple[Any, Any],
    turn: Turn,
    *,
    has_failed: bool = False,
) -> list[Any]:
    """Return the committed offsets of a group as of now, for these topics or for all.

    Of topics of which the client may not know, all are left out, or these are denied. If it `has_failed`, `offsets`
    have the error of all partitions.
    """
    topic_kind, partition_kind = kinds
    rights = TopicRights(request, AclOperation.DESCRIBE, all_allowed=has_failed)
    denied = OffsetsView(None, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    # A partition that is named twice is answered once: its metadata is 1,000 times as long as its number.
    partitions_of: dict[str, dict[int, Any]] = {}
    for at in _wanted(topics) if topics is not None else await _sorted(offsets, turn):
        if at is not None:
            topic, index = at
            if topics is None:
                if request.sees(AclResourceType.TOPIC, topic):
                    partitions_of.setdefault(topic, {})[index] = _partition(request, at, offsets, partition_kind)
            else:
                view = offsets if rights.allow(topic) else denied
                partitions_of.setdefault(topic, {})[index] = _partition(request, at, view, partition_kind)
        if turn.is_over:
            offsets.freeze()
            await turn.end()
    answers = []
    for name, partitions in partitions_of.items():
        answers.append(topic_kind(name=name, partitions=list(partitions.values())))
        if turn.is_over:
            await turn.end()
    return answers


def _wanted(topics: Topics) -> Iterator[TopicPartition | None]:
    """Yield the partitions of a request, and None for each of its topics, which take time as well."""
    for topic in topics:
        yield None
        for index in topic.partition_indexes:
            yield topic.name, index


async def _sorted(offsets: OffsetsView, turn: Turn) -> list[TopicPartition]:
    """Return all partitions that have committed offsets, in order."""
    indexes_of: dict[str, list[int]] = {}
    for topic, index in offsets.partitions():
        indexes_of.setdefault(topic, []).append(index)
        if turn.is_over:
            offsets.freeze()
            await turn.end()
    return [(topic, index) for topic in sorted(indexes_of) for index in sorted(indexes_of[topic])]


def _partition(request: Request, at: TopicPartition, offsets: OffsetsView, kind: Any) -> Any:
    committed, code = offsets[at]
    if committed is None:
        if request.version == 0 and code is ErrorCode.NONE:
            # ZooKeeper had no node for it.
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return kind(
            partition_index=at[1],
            committed_offset=NO_OFFSET,
            committed_leader_epoch=-1,
            metadata="",
            error_code=code,
        )
    return kind(
        partition_index=at[1],
        committed_offset=committed.offset,
        committed_leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        error_code=code,
    )


# -- OffsetDelete


async def handle_offset_delete(request: Request) -> None:
    message: offset_delete.OffsetDeleteRequest = request.message
    broker, turn = request.broker, request.take_turns()
    if not request.allows(AclOperation.DELETE, AclResourceType.GROUP, message.group_id):
        request.refuse(ErrorCode.GROUP_AUTHORIZATION_FAILED)
        return
    rights = TopicRights(request, AclOperation.READ)
    wanted = list(await _existing(request, rights, turn))
    codes = dict.fromkeys(wanted, ErrorCode.NONE)
    try:
        codes |= await broker.groups.delete_offsets(message.group_id, wanted)
    except Exception as error:
        request.reply(offset_delete.OffsetDeleteResponse(error_code=error_code(error)))
        return
    turn.begin()
    kinds = offset_delete.OffsetDeleteResponseTopic, offset_delete.OffsetDeleteResponsePartition
    answers = await _answers(message.topics, codes, rights, kinds, turn)
    await request.answer(offset_delete.OffsetDeleteResponse(topics=answers))


HANDLERS = {
    offset_commit.OffsetCommitRequest: handle_offset_commit,
    txn_offset_commit.TxnOffsetCommitRequest: handle_txn_offset_commit,
    offset_fetch.OffsetFetchRequest: handle_offset_fetch,
    offset_delete.OffsetDeleteRequest: handle_offset_delete,
}
