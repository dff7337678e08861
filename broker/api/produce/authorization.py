"""The rights of a Produce request's client.

A transactional batch needs its transactional id, and then every topic needs WRITE. The attributes of each batch count,
not what the request says of itself.
"""

from __future__ import annotations

from broker.api.context import Request
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    KafkaError,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailedError,
)
from kafkalog.protocol.messages.produce import ProduceRequest, TopicProduceData
from kafkalog.records.peek import RecordsView


def refusal_of(request: Request, topic: TopicProduceData) -> KafkaError | None:
    """Return why the client may not write to a topic; None if it may."""
    if request.allows(AclOperation.WRITE, AclResourceType.TOPIC, topic.name, count=len(topic.partition_data)):
        return None
    return TopicAuthorizationFailedError()


def _refusal_of_transaction(request: Request) -> KafkaError | None:
    """Return why the client may not send transactional batches; None if it may.

    Without an authorizer each batch is checked when it is appended.
    """
    name = request.message.transactional_id
    if name is not None and request.allows(AclOperation.WRITE, AclResourceType.TRANSACTIONAL_ID, name):
        return None
    return TransactionalIdAuthorizationFailedError()


async def refusal_of_all(request: Request) -> KafkaError | None:
    """Return why a request is refused as a whole, in turns with other requests; None if it is not."""
    if request.broker.authorizer is None:
        return None
    message: ProduceRequest = request.message
    async for topic in request.each(message.topic_data):
        async for data in request.each(topic.partition_data):
            if RecordsView(data.records).is_transactional:
                return _refusal_of_transaction(request)
    return None


def take_out_denied(request: Request) -> list[tuple[TopicProduceData, KafkaError]]:
    """Take the topics that the client may not write to out of the request, and return them with the reasons."""
    message: ProduceRequest = request.message
    refusal: KafkaError | None = None
    if any(RecordsView(data.records).is_transactional for each in message.topic_data for data in each.partition_data):
        refusal = _refusal_of_transaction(request)
    allowed: list[TopicProduceData] = []
    denied: list[tuple[TopicProduceData, KafkaError]] = []
    for topic in message.topic_data:
        error = refusal or refusal_of(request, topic)
        if error is None:
            allowed.append(topic)
        else:
            denied.append((topic, error))
    message.topic_data = allowed
    return denied
