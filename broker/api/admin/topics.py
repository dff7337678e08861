"""CreateTopics (key 19), DeleteTopics (key 20) and CreatePartitions (key 37)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable

from broker.api.context import Broker, Request
from broker.api.errors import Answering, error_code, error_message
from broker.controller.decisions.planning import NewTopic
from broker.metadata.model import TopicState
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from kafkalog.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kafkalog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

NAMED_BY_ID_VERSION = 6
CREATE_REFUSED_SINCE, DELETE_REFUSED_SINCE, GROW_REFUSED_SINCE = 6, 5, 3
"""Versions since which clients know THROTTLING_QUOTA_EXCEEDED (KIP-599). Others are served and throttled afterwards."""


async def handle_create_topics(request: Request) -> None:
    message: CreateTopicsRequest = request.message
    broker = request.broker
    counts = await _counted(request, message.topics)
    wanted = [await _wanted(request, topic) async for topic in request.each(message.topics) if counts[topic.name] == 1]
    mutations = request.mutations(CREATE_REFUSED_SINCE)
    refusal = request.refusal
    made = (
        await broker.topics.create(
            wanted, validate_only=message.validate_only, admit=mutations.record, wait_ms=message.timeout_ms
        )
        if refusal is None
        else dict.fromkeys(counts, refusal)
    )
    results = []
    async for name in request.each(counts):
        result = CreatableTopicResult(name=name, error_message=None)
        outcome = made.get(name)
        if outcome is None:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "Duplicate topic name."
        elif isinstance(outcome, TopicState):
            _fill(broker, outcome, result, message.validate_only)
        else:
            result.error_code = error_code(outcome)
            result.error_message = error_message(outcome)
        results.append(result)
    wait_ms = request.quota_wait_ms(mutations=mutations)
    await request.answer(CreateTopicsResponse(topics=results), counts, made, wanted, wait_ms=wait_ms)


async def _counted(request: Request, topics: Iterable[CreatableTopic | CreatePartitionsTopic]) -> Counter[str]:
    """Count how often the request names each topic."""
    counts = Counter[str]()
    async for topic in request.each(topics):
        counts[topic.name] += 1
    return counts


async def _wanted(request: Request, topic: CreatableTopic) -> NewTopic:
    """Return what is asked for; a topic may have as many assignments and configurations as the client likes."""
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        {assignment.partition_index: assignment.broker_ids async for assignment in request.each(topic.assignments)},
        {config.name: config.value async for config in request.each(topic.configs)},
    )


def _fill(broker: Broker, state: TopicState, result: CreatableTopicResult, validate_only: bool) -> None:
    result.num_partitions = len(state.partitions)
    result.replication_factor = len(state.partitions[0].replicas)
    if validate_only:
        result.configs = []
        return
    result.topic_id = state.topic_id
    result.configs = [
        CreatableTopicConfigs(
            name=entry.key.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.key.sensitive,
        )
        for entry in broker.configs.describe_topic(state.name)
    ]


async def handle_delete_topics(request: Request) -> None:
    message: DeleteTopicsRequest = request.message
    broker = request.broker
    results: list[DeletableTopicResult] = []
    names: dict[str, None] = {}
    ids: dict[str, uuid.UUID] = {}

    def want(name: str) -> None:
        names[name] = None
        if (found := broker.metadata.topic(name)) is not None:
            ids[name] = found.topic_id

    if request.version >= NAMED_BY_ID_VERSION:
        by_id = broker.metadata.names_by_id()
        async for topic in request.each(message.topics):
            name = topic.name if topic.name is not None else by_id.get(topic.topic_id)
            if name is None:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
                results.append(DeletableTopicResult(name=None, topic_id=topic.topic_id, error_code=unknown))
                continue
            want(name)
            if topic.name is None:
                ids[name] = topic.topic_id
    else:
        async for name in request.each(message.topic_names):
            want(name)
    mutations = request.mutations(DELETE_REFUSED_SINCE)
    refusal = request.refusal
    outcomes = (
        await broker.topics.delete(list(names), ids, admit=mutations.record, wait_ms=message.timeout_ms)
        if refusal is None
        else dict.fromkeys(names, refusal)
    )
    async for name, error in request.each(outcomes.items()):
        result = DeletableTopicResult(name=name)
        if name in ids:
            result.topic_id = ids[name]
        if error is not None:
            result.error_code = error_code(error)
            result.error_message = error_message(error)
        results.append(result)
    wait_ms = request.quota_wait_ms(mutations=mutations)
    await request.answer(DeleteTopicsResponse(responses=results), names, outcomes, wait_ms=wait_ms)


async def handle_create_partitions(request: Request) -> None:
    message: CreatePartitionsRequest = request.message
    counts = await _counted(request, message.topics)
    mutations = request.mutations(GROW_REFUSED_SINCE)
    end_ms = request.broker.runtime.monotonic_ms() + message.timeout_ms
    results = []
    async for topic in request.each(message.topics):
        result = CreatePartitionsTopicResult(name=topic.name)
        with Answering(result):
            if (refusal := request.refusal) is not None:
                raise refusal
            if counts[topic.name] > 1:
                result.error_code = ErrorCode.INVALID_REQUEST
                result.error_message = "Duplicate topic in request."
            else:
                assignments = (
                    None
                    if topic.assignments is None
                    else [entry.broker_ids async for entry in request.each(topic.assignments)]
                )
                await request.broker.topics.grow(
                    topic.name,
                    topic.count,
                    assignments,
                    validate_only=message.validate_only,
                    admit=mutations.record,
                    wait_ms=end_ms - request.broker.runtime.monotonic_ms(),
                )
        results.append(result)
    wait_ms = request.quota_wait_ms(mutations=mutations)
    await request.answer(CreatePartitionsResponse(results=results), counts, wait_ms=wait_ms)


HANDLERS = {
    CreateTopicsRequest: handle_create_topics,
    DeleteTopicsRequest: handle_delete_topics,
    CreatePartitionsRequest: handle_create_partitions,
}
