"""Embedded subscriptions and assignments of classic members, converted by the topics of the cluster.

Members name topics, and a group of the consumer protocol has their ids. `kafkalog.protocol.embedded.consumer` describes
the bytes.
"""

from __future__ import annotations

from uuid import UUID

from broker.coordinator.group.kip848.context import Topics
from broker.coordinator.group.kip848.model import Assignment
from kafkalog.protocol.embedded import consumer
from kafkalog.protocol.embedded.consumer import ConsumerAssignment, TopicPartitions


def decode_assignment(data: bytes, topics: Topics) -> Assignment:
    """Return the assigned partitions of existing topics; none for no bytes, as of a member that never got any.

    Raises:
        ProtocolError: the bytes are no assignment.
    """
    return by_id(consumer.decode_assignment(data).assigned_partitions, topics) if data else {}


def encode_assignment(assignment: Assignment, version: int, topics: Topics) -> bytes:
    """Encode an assignment, without topics that were deleted."""
    named = sorted((name, topic_id) for topic_id in assignment if (name := topics.name_of(topic_id)) is not None)
    value = ConsumerAssignment(
        assigned_partitions=[
            TopicPartitions(topic=name, partitions=sorted(assignment[topic_id])) for name, topic_id in named
        ]
    )
    return consumer.encode_assignment(value, version)


def by_id(partitions: list[TopicPartitions], topics: Topics) -> Assignment:
    """Return the partitions of existing topics, by topic id."""
    result: dict[UUID, frozenset[int]] = {}
    for entry in partitions:
        topic = topics.get(entry.topic)
        if topic is not None and entry.partitions:
            result[topic.topic_id] = result.get(topic.topic_id, frozenset()) | frozenset(entry.partitions)
    return result
