"""Explain why the leader, the ISR or the assignment of a partition changed, and how far its followers are.

Responses of DescribeTopicPartitions have a field for it that Apache Kafka does not know. The controller fills it with
the changes and their causes, and the leader with the positions of its followers.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import ClientError
from kafkalog.client.metadata import ClusterMetadata
from kafkalog.client.retry import Retry
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import (
    ErrorCode,
    KafkaError,
    NotControllerError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
    error_for,
)
from kafkalog.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    PartitionExplanation,
    TopicRequest,
)

LEADER_TIMEOUT_S = 5.0
"""The time to wait for the leader. If it is dead or cut off, the controller's answer is returned alone."""


class PartitionChange(NamedTuple):
    """One change of a partition."""

    at_ms: int
    """The time of the decision, in milliseconds since the epoch."""
    controller_epoch: int
    """The epoch of the controller that decided it."""
    what: str
    """The change, such as `leader 1 -> 2, isr [1, 2] -> [2]`."""
    cause: str
    """The reason, with the evidence."""


class FollowerPosition(NamedTuple):
    """The position of a follower, as its leader knows it."""

    broker: int
    log_end_offset: int
    """The end of its log; -1 before its first fetch."""
    lag: int
    """The number of records that it lacks; -1 before its first fetch."""
    behind_ms: int
    """The time since it last had all that the leader had; -1 if it never had it in this leader epoch."""
    fetched_ms: int
    """The time since its last fetch; -1 if there was none in this leader epoch."""


class ExplainedPartition(NamedTuple):
    """A partition now, and why it came to be so."""

    partition: TopicPartition
    leader: int
    """-1 where there is none."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    log_end_offset: int
    """The end of the leader's log; -1 where the leader does not tell."""
    followers: list[FollowerPosition]
    """Empty where the leader does not tell."""
    silence: str | None
    """The reason why the leader has not told the positions of its followers; None if it has."""
    controller: int
    """The controller, or the lone broker that the cluster is."""
    controller_epoch: int
    """-1 where the cluster is one lone broker."""
    controller_since_ms: int
    """The time of the controller's election; -1 where the cluster is one lone broker."""
    known_since_ms: int
    """Some changes before this time are lost; -1 where all are known."""
    changes: list[PartitionChange]
    """Oldest first."""


def explain_partition(cluster: Cluster, partition: TopicPartition) -> ExplainedPartition:
    """Ask the controller for the history of a partition, and its leader for the followers.

    Raises:
        UnknownTopicOrPartitionError: There is no such partition.
        UnsupportedVersionError: The controller is not a broker of kafkalog.
        ClientTimeoutError: There has been no controller for `default.api.timeout.ms`.
    """

    def attempt(retry: Retry) -> ExplainedPartition:
        found = cluster.metadata([], refresh=True, deadline=retry.deadline)
        controller = found.controller_id
        if controller not in found.brokers:
            raise NotControllerError("there is no controller at present")
        row = _asked(cluster, controller, partition, retry.request_timeout)
        told = row.explanation
        if told is None:
            raise _foreign(found, controller)
        if told.is_member and told.controller_epoch < 0:
            raise NotControllerError(f"broker {controller} is not the controller any more")
        of_leader, silence = _of_leader(cluster, partition, row, told, controller)
        return ExplainedPartition(
            partition,
            row.leader_id,
            row.leader_epoch,
            tuple(row.replica_nodes),
            tuple(row.isr_nodes),
            of_leader.log_end_offset,
            _followers(of_leader),
            silence,
            controller,
            told.controller_epoch,
            told.controller_since_ms,
            told.known_since_ms,
            [PartitionChange(each.at_ms, each.controller_epoch, each.what, each.cause) for each in told.changes],
        )

    return cluster.on_controller(attempt)


def _asked(
    cluster: Cluster, node_id: int, partition: TopicPartition, timeout: float
) -> DescribeTopicPartitionsResponsePartition:
    """Ask a broker for a partition and what it knows of it."""
    topic, index = partition
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=topic, explained=[index])],
        response_partition_limit=1,
        cursor=Cursor(topic_name=topic, partition_index=index),
    )
    try:
        response: DescribeTopicPartitionsResponse = cluster.request_to(node_id, request, timeout=timeout)
    except UnsupportedVersionError:
        raise _foreign(cluster.metadata([]), node_id) from None
    for found in response.topics:
        if found.name == topic and found.error_code not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            raise error_for(found.error_code, None)
        for row in found.partitions:
            if found.name == topic and row.partition_index == index:
                return row
    raise UnknownTopicOrPartitionError(f"there is no partition {partition}")


def _foreign(known: ClusterMetadata, node_id: int) -> UnsupportedVersionError:
    found = known.brokers.get(node_id)
    where = "" if found is None else f" ({found.host}:{found.port})"
    who = "the controller" if node_id == known.controller_id else "the leader"
    return UnsupportedVersionError(
        f"broker {node_id}{where}, {who}, does not tell why partitions change: it is not a broker of kafkalog. "
        "The log of an Apache Kafka controller (state-change.log) has the changes"
    )


def _of_leader(
    cluster: Cluster,
    partition: TopicPartition,
    row: DescribeTopicPartitionsResponsePartition,
    told: PartitionExplanation,
    controller: int,
) -> tuple[PartitionExplanation, str | None]:
    """Return the leader's answer; if there is none, an empty one and the reason."""
    silent = PartitionExplanation()
    if row.leader_id < 0:
        return silent, "there is no leader"
    if row.leader_id != controller:
        try:
            answer = _asked(cluster, row.leader_id, partition, LEADER_TIMEOUT_S).explanation
        except KafkaError as error:
            return silent, error.message
        except ClientError as error:
            return silent, str(error)
        if answer is None:
            return silent, _foreign(cluster.metadata([]), row.leader_id).message
        told = answer
    if told.leader_epoch < 0:
        return silent, f"broker {row.leader_id} does not lead the partition yet, or not any more"
    return told, None


def _followers(told: PartitionExplanation) -> list[FollowerPosition]:
    return [
        FollowerPosition(
            each.broker_id,
            each.log_end_offset,
            -1 if each.log_end_offset < 0 else max(0, told.log_end_offset - each.log_end_offset),
            each.behind_ms,
            each.fetched_ms,
        )
        for each in told.followers
    ]
