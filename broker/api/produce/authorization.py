"""The rights of a Produce request's client.

A transactional batch needs its transactional id, and then every topic needs WRITE. The attributes of each batch count,
not what the request says of itself.
"""

from __future__ import annotations

from broker.api.context import Request
from broker.authorizer.model import AclOperation, ResourceType
from kafkalog.protocol.messages.produce import ProduceRequest, TopicProduceData
from kafkalog.records.peek import RecordsView


def is_transactional(topic: TopicProduceData) -> bool:
    """Return whether a batch for one of a topic's partitions is part of a transaction."""
    return any(RecordsView(data.records).is_transactional for data in topic.partition_data)


def lacks_transactional_id(request: Request, topics: list[TopicProduceData]) -> bool:
    """Return whether transactional batches come without a transactional id that the client may write with.

    The request is refused as a whole then. Without an authorizer each batch is checked when it is appended.
    """
    message: ProduceRequest = request.message
    if not any(map(is_transactional, topics)):
        return False
    name = message.transactional_id
    return name is None or not request.allows(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name)


def may_write(request: Request, topic: TopicProduceData) -> bool:
    """Return whether the client may write to a topic."""
    return request.allows(AclOperation.WRITE, ResourceType.TOPIC, topic.name, count=len(topic.partition_data))


def take_out_denied(request: Request) -> list[TopicProduceData]:
    """Take the topics that the client may not write to out of the request, and return them."""
    message: ProduceRequest = request.message
    allowed: list[TopicProduceData] = []
    denied: list[TopicProduceData] = []
    for topic in message.topic_data:
        (allowed if may_write(request, topic) else denied).append(topic)
    message.topic_data = allowed
    return denied
