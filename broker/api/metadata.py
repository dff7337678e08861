"""Metadata (key 3), DescribeCluster (key 60) and DescribeTopicPartitions (key 75): brokers, leaders, topics."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import Any

from broker.api.authorization import TopicRights
from broker.api.cluster.explanations import explanation
from broker.api.cluster.unknown_cluster import knows_cluster
from broker.api.context import Broker, Request
from broker.api.errors import ClientGoneError, error_code
from broker.api.large import release
from broker.api.shared_metadata import MANY, VERY_MANY
from broker.controller.decisions.planning import MAX_PARTITIONS_PER_REQUEST, check_topic_name
from broker.metadata.model import NO_LEADER, NO_TOPIC_ID, TopicState
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    ErrorCode,
    InvalidTopicError,
    KafkaError,
    KafkaStorageError,
    RequestTimedOutError,
    TopicAlreadyExistsError,
)
from kafkalog.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from kafkalog.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from kafkalog.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kafkalog.storage.topics import INTERNAL_TOPICS

CREATION_S = 2.0
"""The seconds that metadata waits for ZooKeeper to take new topics: the client wants to know of the others, too."""
ELECTIONS_S = 0.5
"""The longest time that metadata waits for elections: other requests of the connection wait, too."""
RECHECK_S = 0.05
"""The interval at which it looks whether a leader that seemed dead has come back."""
AT_ONCE = 100
"""The most partitions of a topic that are answered before the turn may end."""
MOST_NAMED = 1000
"""Answers to requests that name more topics are not shared."""
ALL = slice(None)
"""All partitions of a topic."""
SORTED_AT_ONCE = 10_000
"""The most names of topics that are sorted at once."""
LISTENER_SINCE = 6
"""Versions of Metadata that say that a leader lacks the client's listener."""
NAMED_BY_NAME_ALONE = (10, 11)
"""These versions have a field for a topic's id, and a name that may be null, but accept neither (KIP-516)."""


async def handle_metadata(request: Request) -> None:
    message: MetadataRequest = request.message
    broker = request.broker
    if not await knows_cluster(request):
        return
    created: Mapping[str, ErrorCode] = {}
    # An empty list means every topic in version 0, where a list cannot be null.
    if message.topics is None or (request.version == 0 and not message.topics):
        names: Iterable[str] = broker.metadata.topic_names()
        if broker.authorizer is not None:
            names = [name async for name in request.each(names) if request.sees(AclResourceType.TOPIC, name)]
        wanted = [MetadataRequestTopic(name=name) for name in names]
    else:
        wanted = message.topics
        if len(wanted) > 1:
            # Each topic is answered once, as in Kafka: an entry of the response is 1,000 times as long as its name.
            named = {(asked.name, asked.topic_id): asked async for asked in request.each(wanted)}
            wanted = list(named.values())
        if request.version in NAMED_BY_NAME_ALONE and await _is_named_by_id(request, wanted):
            for_all = [
                MetadataResponseTopic(
                    error_code=ErrorCode.INVALID_REQUEST, name=asked.name or "", topic_id=asked.topic_id
                )
                async for asked in request.each(wanted)
            ]
            await request.answer(MetadataResponse(topics=for_all))
            return
        if wanted and message.allow_auto_topic_creation and broker.config["auto.create.topics.enable"]:
            created = await _auto_create(request, wanted)
        if broker.metadata.lost():
            await _elections(request, wanted)
    count = await _partition_count(request, wanted)
    if count > MANY:
        key = _shared_key(request) if not created else None
        body = await broker.shared_metadata.body(count, key, lambda: _large_body(request, wanted, created))
        request.reply_body(MetadataResponse(), body)
        return
    await request.answer(await _response(request, wanted, created))


async def _large_body(
    request: Request, wanted: list[MetadataRequestTopic], created: Mapping[str, ErrorCode]
) -> tuple[memoryview, bool]:
    """Return the encoded response, and whether all of its partitions can be used.

    Raises:
        ClientGoneError: the client has disconnected meanwhile.
    """
    if request.connection.closed:
        raise ClientGoneError
    # It may have waited for other answers.
    request.take_turns().begin()
    response = await _response(request, wanted, created)

    def encode() -> tuple[memoryview, bool]:
        topics = response.topics
        has_errors = any(topic.error_code or any(row.error_code for row in topic.partitions) for topic in topics)
        body = request.encoded_body(response)
        for message in (response, request.message):
            release(message)
        return body, not has_errors

    return await request.broker.lanes.run(request.nbytes, encode)


async def _partition_count(request: Request, wanted: list[MetadataRequestTopic]) -> int:
    """Return the number of partitions of the topics, or `VERY_MANY` if there are more."""
    metadata, count = request.broker.metadata, 0
    async for asked in request.each(wanted):
        name = metadata.names_by_id().get(asked.topic_id) if asked.name is None else asked.name
        state = None if name is None else metadata.topic(name)
        count += 0 if state is None else len(state.partitions)
        if count >= VERY_MANY:
            return VERY_MANY
    return count


def _shared_key(request: Request) -> Hashable:
    """Return what the answer depends on, apart from the cluster; None if that is the client, or is long to tell."""
    message: MetadataRequest = request.message
    if request.broker.authorizer is not None or len(message.topics or ()) > MOST_NAMED:
        return None
    return (
        request.version,
        request.connection.endpoint.name,
        None if message.topics is None else tuple((each.name, each.topic_id) for each in message.topics),
        message.include_cluster_authorized_operations,
        message.include_topic_authorized_operations,
    )


async def _response(
    request: Request, wanted: list[MetadataRequestTopic], created: Mapping[str, ErrorCode]
) -> MetadataResponse:
    message: MetadataRequest = request.message
    broker = request.broker
    response = MetadataResponse(
        brokers=_brokers(request, MetadataResponseBroker),
        cluster_id=broker.metadata.cluster_id,
        controller_id=broker.metadata.controller_id,
        cluster_authorized_operations=request.authorized_cluster_operations(
            message.include_cluster_authorized_operations
        ),
    )
    if len(wanted) <= 1:
        # The usual request.
        response.topics = [await _answered(request, asked, created) for asked in wanted]
    else:
        async for asked in request.each(wanted):
            response.topics.append(await _answered(request, asked, created))
    return response


async def _elections(request: Request, wanted: Iterable[MetadataRequestTopic]) -> None:
    """Wait for new leaders of the topics whose leader has died, or seems to, for `ELECTIONS_S` at most.

    The election usually ends within 100 ms. If the response named the dead leader, or none, the client would ask again
    only after 100 ms to 1 s.
    """
    metadata = request.broker.metadata
    named = [asked.name or metadata.names_by_id().get(asked.topic_id, "") async for asked in request.each(wanted)]
    names = [name async for name in request.each(named) if request.sees(AclResourceType.TOPIC, name)]
    with suppress(TimeoutError):
        async with asyncio.timeout(ELECTIONS_S):
            while await _are_led_by(request, names, metadata.lost()):
                await metadata.changes(RECHECK_S)


async def _are_led_by(request: Request, names: list[str], brokers: Collection[int]) -> bool:
    """Return whether one of the brokers leads a partition of the topics."""
    async for name in request.each(names if brokers else ()):
        state = request.broker.metadata.topic(name)
        if state is not None and any(partition.leader in brokers for partition in state.partitions):
            return True
    return False


async def _answered(
    request: Request, asked: MetadataRequestTopic, created: Mapping[str, ErrorCode]
) -> MetadataResponseTopic:
    name, is_by_id = asked.name, asked.name is None
    if name is None:
        name = request.broker.metadata.names_by_id().get(asked.topic_id)
    if name is not None and not request.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name):
        # Who may not know of a topic learns neither the name of an id, nor the id of a name, nor whether it exists.
        denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return MetadataResponseTopic(error_code=denied, name=None if is_by_id else name, topic_id=asked.topic_id)
    topic = await _topic(request, asked.name, asked.topic_id, ALL)
    if topic.error_code in _NOT_THERE and topic.name is not None:
        topic.error_code = created.get(topic.name, ErrorCode(topic.error_code))
    if topic.name is not None and topic.error_code == ErrorCode.NONE:
        is_asked = request.message.include_topic_authorized_operations
        topic.topic_authorized_operations = request.authorized_operations(is_asked, AclResourceType.TOPIC, topic.name)
    return topic


_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
"""The errors of topics that do not exist."""


async def _is_named_by_id(request: Request, wanted: list[MetadataRequestTopic]) -> bool:
    async for asked in request.each(wanted):
        if asked.name is None or asked.topic_id != NO_TOPIC_ID:
            return True
    return False


def _brokers(request: Request, kind: Any) -> list[Any]:
    """Return the live brokers that have the client's listener, with its addresses; Metadata lists ended ones longer."""
    listener = request.connection.endpoint.name
    metadata = request.broker.metadata
    is_metadata = kind is MetadataResponseBroker
    id_field = "node_id" if is_metadata else "broker_id"
    return [
        kind(**{id_field: broker.broker_id}, host=endpoint.host, port=endpoint.port, rack=broker.rack)
        for broker in (metadata.listed_brokers() if is_metadata else metadata.alive_brokers())
        if (endpoint := broker.endpoint(listener)) is not None
    ]


async def _auto_create(request: Request, wanted: list[MetadataRequestTopic]) -> dict[str, ErrorCode]:
    """Create the topics that do not exist; return what to answer for those that do not exist afterwards.

    In a cluster a new topic has no leaders yet, and the client asks again.
    """
    broker = request.broker
    missing: dict[str, None] = {}
    denied: dict[str, ErrorCode] = {}
    rights: TopicRights | None = None
    async for asked in request.each(wanted):
        name = asked.name
        if not name or broker.metadata.topic(name) is not None or not request.sees(AclResourceType.TOPIC, name):
            continue
        if rights is None:
            may_create = request.allows_cluster(AclOperation.CREATE, tells_denied=False)
            rights = TopicRights(request, AclOperation.CREATE, all_allowed=may_create)
        if not rights.allow(name):
            denied[name] = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif name not in INTERNAL_TOPICS and _is_legal(name):
            missing[name] = None
            if len(missing) == MAX_PARTITIONS_PER_REQUEST:
                break
    if not missing:
        return denied
    # Created topics count for the quota, but metadata is never refused for it.
    mutations = request.mutations(strict_since=request.version + 1)
    # Kafka's brokers do not wait for the controller's answer. The client asks again.
    patience = CREATION_S if broker.member is not None else None
    made = await broker.auto_creation.create(missing, mutations.record, patience)
    return denied | {name: _code_of(result) for name, result in made.items()}


def _code_of(result: TopicState | KafkaError) -> ErrorCode:
    if isinstance(result, TopicState | RequestTimedOutError | TopicAlreadyExistsError):
        return ErrorCode.LEADER_NOT_AVAILABLE
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if isinstance(result, KafkaStorageError) else error_code(result)


def _is_legal(name: str) -> bool:
    try:
        check_topic_name(name)
    except InvalidTopicError:
        return False
    return True


async def _topic(request: Request, name: str | None, topic_id: uuid.UUID, partitions: slice) -> MetadataResponseTopic:
    """Return a topic, and those of its partitions that are asked for."""
    broker = request.broker
    if name is None:
        name = broker.metadata.names_by_id().get(topic_id)
        if name is None:
            return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id)
    state = broker.metadata.topic(name)
    if state is None:
        try:
            check_topic_name(name)
        except KafkaError as error:
            return MetadataResponseTopic(error_code=error.code, name=name)
        return MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name)
    wanted = range(len(state.partitions))[partitions]
    rows = _partitions(request, state, wanted)
    return MetadataResponseTopic(
        name=name,
        topic_id=state.topic_id,
        is_internal=name in INTERNAL_TOPICS,
        partitions=list(rows) if len(wanted) <= AT_ONCE else [row async for row in request.each(rows)],
    )


def _partitions(request: Request, state: TopicState, wanted: range) -> Iterator[MetadataResponsePartition]:
    """Yield partitions of a topic, each as it is by then: there may be turns in between."""
    broker, listener = request.broker, request.connection.endpoint.name
    unreachable: dict[int, bool] = {NO_LEADER: False}
    for index in wanted:
        current = broker.metadata.topic(state.name)
        if current is not None and current.topic_id == state.topic_id:
            state = current
        partition = state.partitions[index]
        # Kafka answers the same if no live replica can lead: no leader, and the last ISR.
        leader = broker.metadata.leader(state.name, index)
        error = ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE
        if leader not in unreachable:
            unreachable[leader] = broker.metadata.endpoint(leader, listener) is None
        if unreachable[leader]:
            # The client's listener is not on that broker. (Kafka's `ZkMetadataCache.getPartitionMetadata`)
            names_listener = request.message.__class__ is not MetadataRequest or request.version >= LISTENER_SINCE
            error = ErrorCode.LISTENER_NOT_FOUND if names_listener else ErrorCode.LEADER_NOT_AVAILABLE
            leader = NO_LEADER
        yield MetadataResponsePartition(
            error_code=error,
            partition_index=index,
            leader_id=leader,
            leader_epoch=partition.leader_epoch,
            replica_nodes=list(partition.replicas),
            isr_nodes=list(partition.isr),
            offline_replicas=broker.metadata.offline_replicas(state.name, index, partition),
        )


async def handle_describe_cluster(request: Request) -> None:
    message: DescribeClusterRequest = request.message
    broker = request.broker
    if not await knows_cluster(request):
        return
    if request.version >= 1 and message.endpoint_type != 1:
        unsupported = message.endpoint_type != 2
        request.reply(
            DescribeClusterResponse(
                error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE if unsupported else ErrorCode.MISMATCHED_ENDPOINT_TYPE,
                error_message="This endpoint is a broker's, not a controller's.",
            )
        )
        return
    request.reply(
        DescribeClusterResponse(
            brokers=_brokers(request, DescribeClusterBroker),
            cluster_id=broker.metadata.cluster_id,
            controller_id=broker.metadata.controller_id,
            cluster_authorized_operations=request.authorized_cluster_operations(
                message.include_cluster_authorized_operations
            ),
        )
    )


async def handle_describe_topic_partitions(request: Request) -> None:
    """Serve DescribeTopicPartitions: topics by name, in order.

    The response ends after `response_partition_limit` partitions, with a cursor where the next request continues.
    """
    message: DescribeTopicPartitionsRequest = request.message
    broker = request.broker
    if not await knows_cluster(request):
        return
    asked = {topic.name: frozenset(topic.explained) async for topic in request.each(message.topics)}
    # A few at a time, because sorting a million names takes a second.
    runs = [sorted(some) async for some in request.each(_pieces(asked))] or [broker.metadata.topic_names()]
    first_topic, first_partition = "", 0
    if message.cursor is not None:
        first_topic, first_partition = message.cursor.topic_name, message.cursor.partition_index
        if first_partition < 0 or (asked and first_topic not in asked):
            refused = [
                DescribeTopicPartitionsResponseTopic(error_code=ErrorCode.INVALID_REQUEST, name=name)
                async for name in request.each(asked)
            ]
            await request.answer(DescribeTopicPartitionsResponse(topics=refused), asked, *runs)
            return
    remaining = max(1, min(message.response_partition_limit, 2000))
    response = DescribeTopicPartitionsResponse()
    async for name in request.each(merge(*runs)):
        if name < first_topic:
            continue
        if remaining == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=0)
            break
        is_named = bool(asked)
        if not (request.allows(AclOperation.DESCRIBE, AclResourceType.TOPIC, name, tells_denied=is_named)):
            if is_named:
                denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=denied, name=name))
            continue
        begin = first_partition if name == first_topic else 0
        topic = await _topic(request, name, NO_TOPIC_ID, slice(begin, begin + remaining))
        partitions = topic.partitions
        explained = asked.get(name, frozenset())
        remaining -= len(partitions)
        response.topics.append(
            DescribeTopicPartitionsResponseTopic(
                error_code=topic.error_code,
                name=name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=[_described(broker, name, partition, explained) for partition in partitions],
                topic_authorized_operations=request.authorized_operations(True, AclResourceType.TOPIC, name),
            )
        )
        state = broker.metadata.topic(name)
        if state is not None and begin + len(partitions) < len(state.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=begin + len(partitions))
            break
    await request.answer(response, asked, *runs)


def _described(
    broker: Broker, topic: str, partition: MetadataResponsePartition, explained: Collection[int]
) -> DescribeTopicPartitionsResponsePartition:
    index = partition.partition_index
    return DescribeTopicPartitionsResponsePartition(
        error_code=partition.error_code,
        partition_index=index,
        leader_id=partition.leader_id,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replica_nodes,
        isr_nodes=partition.isr_nodes,
        # The schema allows null, but the Java client does not accept it.
        eligible_leader_replicas=[],
        last_known_elr=[],
        offline_replicas=partition.offline_replicas,
        explanation=explanation(broker, topic, index) if index in explained else None,
    )


def _pieces(names: Iterable[str]) -> Iterator[list[str]]:
    rest = iter(names)
    while some := list(islice(rest, SORTED_AT_ONCE)):
        yield some


HANDLERS = {
    MetadataRequest: handle_metadata,
    DescribeClusterRequest: handle_describe_cluster,
    DescribeTopicPartitionsRequest: handle_describe_topic_partitions,
}
