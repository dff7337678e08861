"""Embedded subscriptions and assignments of classic members, converted by the topics of the cluster.

Members name topics, and a group of the consumer protocol has their ids. `kafkalog.protocol.embedded.consumer` describes
the bytes.
"""

from __future__ import annotations

from uuid import UUID

from broker.coordinator.group.kip848.context import Topics
from broker.coordinator.group.kip848.model import Assignment
from kafkalog.protocol.embedded import consumer
from kafkalog.protocol.embedded.consumer import ConsumerAssignment, ConsumerSubscription, TopicPartitions
from kafkalog.protocol.primitives import MAX_STRING, ProtocolError, fits_string

MOST_ENTRIES = 200_000
"""The most topics and partitions that one request decodes, about. A group examines all of them in one turn."""


def decode_subscription(data: bytes, most: int = MOST_ENTRIES) -> ConsumerSubscription:
    """Return a subscription that the record of a member can hold.

    Raises:
        ProtocolError: the bytes are no such subscription.
        TooManyEntriesError: it has more than `most` topics and partitions.
    """
    subscription = consumer.decode_subscription(data, most)
    if not all(map(fits_string, (subscription.rack_id, *subscription.topics))):
        raise ProtocolError(f"the rack or a topic has more than {MAX_STRING} bytes")
    return subscription


def decode_assignment(data: bytes, most: int = MOST_ENTRIES) -> list[TopicPartitions]:
    """Return the assigned partitions; none for no bytes, as of a member that never got any.

    Raises:
        ProtocolError: the bytes are no assignment.
        TooManyEntriesError: it has more than `most` topics and partitions.
    """
    return consumer.decode_assignment(data, most).assigned_partitions if data else []


def encode_assignment(assignment: Assignment, version: int, topics: Topics) -> bytes:
    """Encode an assignment, without topics that were deleted."""
    named = sorted((name, topic_id) for topic_id in assignment if (name := topics.name_of(topic_id)) is not None)
    value = ConsumerAssignment(
        assigned_partitions=[
            TopicPartitions(topic=name, partitions=sorted(assignment[topic_id])) for name, topic_id in named
        ]
    )
    return consumer.encode_assignment(value, version)


def count(partitions: list[TopicPartitions]) -> int:
    """Return the number of topics and partitions."""
    return sum(1 + len(entry.partitions) for entry in partitions)


def by_id(partitions: list[TopicPartitions], topics: Topics) -> Assignment:
    """Return the partitions of existing topics, by topic id."""
    result: dict[UUID, frozenset[int]] = {}
    for entry in partitions:
        topic = topics.get(entry.topic)
        if topic is not None and entry.partitions:
            result[topic.topic_id] = result.get(topic.topic_id, frozenset()) | frozenset(entry.partitions)
    return result
