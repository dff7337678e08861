"""CreateTopics (key 19), DeleteTopics (key 20) and CreatePartitions (key 37)."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Iterable

from broker.api.authorization import TopicRights
from broker.api.context import Request
from broker.api.errors import Answering, error_code, error_message
from broker.controller.decisions.planning import NewTopic
from broker.metadata.model import NO_TOPIC_ID, TopicState
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import ErrorCode, KafkaError, TopicAuthorizationFailedError
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
    mutations = request.mutations(CREATE_REFUSED_SINCE)
    refusal = request.refusal
    rights = TopicRights(
        request, AclOperation.CREATE, all_allowed=request.allows_cluster(AclOperation.CREATE, tells_denied=False)
    )
    denied = TopicAuthorizationFailedError("Authorization failed.")
    made: dict[str, TopicState | KafkaError] = {}
    wanted = []
    async for topic in request.each(message.topics):
        if refusal is not None:
            made[topic.name] = refusal
        elif counts[topic.name] == 1:
            if rights.allow(topic.name):
                wanted.append(await _wanted(request, topic))
            else:
                made[topic.name] = denied
    if wanted:
        made |= await broker.topics.create(
            wanted, validate_only=message.validate_only, admit=mutations.record, wait_ms=message.timeout_ms
        )
    results = []
    async for name in request.each(counts):
        result = CreatableTopicResult(name=name, error_message=None)
        outcome = made.get(name)
        if outcome is None:
            result.error_code = ErrorCode.INVALID_REQUEST
            result.error_message = "Duplicate topic name."
        elif isinstance(outcome, TopicState):
            _fill(request, outcome, result, message.validate_only)
        else:
            result.error_code = error_code(outcome)
            result.error_message = error_message(outcome)
        if (outcome is None or outcome is denied) and not _sees_configs(request, name):
            # As with Kafka, whose tools do not look at it then.
            result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
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


def _sees_configs(request: Request, name: str) -> bool:
    return request.allows(AclOperation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, name, tells_denied=False)


def _fill(request: Request, state: TopicState, result: CreatableTopicResult, validate_only: bool) -> None:
    if not _sees_configs(request, state.name):
        result.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        result.configs = None
        if not validate_only:
            result.topic_id = state.topic_id
        return
    result.num_partitions = len(state.partitions)
    result.replication_factor = len(state.partitions[0].replicas)
    if not validate_only:
        result.topic_id = state.topic_id
    # Somebody may have deleted the topic by now.
    result.configs = [
        CreatableTopicConfigs(
            name=entry.key.name,
            value=entry.value,
            read_only=entry.read_only,
            config_source=entry.source,
            is_sensitive=entry.key.sensitive,
        )
        for entry in request.broker.configs.describe_overrides(state.config)
    ]


async def handle_delete_topics(request: Request) -> None:
    message: DeleteTopicsRequest = request.message
    broker = request.broker
    results: list[DeletableTopicResult] = []
    names: dict[str, None] = {}
    ids: dict[str, uuid.UUID] = {}
    rights = _DeletionRights(request)

    def want(name: str, topic_id: uuid.UUID | None) -> None:
        code = rights.code(name, is_by_id=topic_id is not None)
        if code is not ErrorCode.NONE:
            # Who may not know of a topic does not learn the name that belongs to an id, nor the id of a name.
            shown = None if topic_id is not None and not rights.sees(name) else name
            result = DeletableTopicResult(name=shown, error_code=code, error_message=code.message)
            result.topic_id = topic_id or NO_TOPIC_ID
            results.append(result)
            return
        names[name] = None
        if topic_id is not None:
            ids[name] = topic_id
        elif (found := broker.metadata.topic(name)) is not None:
            ids[name] = found.topic_id

    if request.version >= NAMED_BY_ID_VERSION:
        by_id = broker.metadata.names_by_id()
        async for topic in request.each(message.topics):
            if topic.name is not None and topic.topic_id != NO_TOPIC_ID:
                # They may be of different topics. (Kafka's `ControllerApis.deleteTopics`)
                both = DeletableTopicResult(name=topic.name, topic_id=topic.topic_id)
                both.error_code, both.error_message = (
                    ErrorCode.INVALID_REQUEST,
                    "Name a topic, or its id, but not both.",
                )
                results.append(both)
                continue
            name = topic.name if topic.name is not None else by_id.get(topic.topic_id)
            if name is None:
                unknown = ErrorCode.UNKNOWN_TOPIC_ID
                results.append(DeletableTopicResult(name=None, topic_id=topic.topic_id, error_code=unknown))
                continue
            want(name, topic.topic_id if topic.name is None else None)
    else:
        async for name in request.each(message.topic_names):
            want(name, None)
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


class _DeletionRights:
    """The rights of a DeleteTopics request's client on its topics."""

    def __init__(self, request: Request) -> None:
        self._describe = TopicRights(request, AclOperation.DESCRIBE)
        self._delete = TopicRights(request, AclOperation.DELETE)

    def sees(self, name: str) -> bool:
        """Return whether the client may know of a topic."""
        return self._describe.allow(name)

    def code(self, name: str, *, is_by_id: bool) -> ErrorCode:
        """Return TOPIC_AUTHORIZATION_FAILED if the client may not delete a topic; otherwise NONE."""
        allowed = (self.sees(name) or not is_by_id) and self._delete.allow(name)
        return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


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
            elif not request.allows(AclOperation.ALTER, AclResourceType.TOPIC, topic.name):
                raise TopicAuthorizationFailedError("The topic authorization is failed.")
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
