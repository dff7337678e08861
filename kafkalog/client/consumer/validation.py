"""Whether a leader's log still has what a consumer has read: KIP-320, by OffsetForLeaderEpoch."""

from __future__ import annotations

from typing import NamedTuple

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import InvalidResponseError
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import error_for
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

from .positions import NO_EPOCH, Position

_CONSUMER = -1
_UNKNOWN_OFFSET = -1


class Truncated(NamedTuple):
    """A log was cut. ``end``: the first offset at which it differs from what was read; None where nobody knows."""

    end: Position | None


def validate(cluster: Cluster, tp: TopicPartition, position: Position, leader_epoch: int) -> Truncated | None:
    """Ask the leader of ``leader_epoch`` whether its log holds what comes before ``position``: None where it does.

    Raises the error that the leader reports, FencedLeaderEpochError and UnknownLeaderEpochError among them, and those
    of `Cluster`.
    """
    asked = OffsetForLeaderPartition(
        partition=tp.partition, current_leader_epoch=leader_epoch, leader_epoch=position.epoch
    )
    request = OffsetForLeaderEpochRequest(
        replica_id=_CONSUMER, topics=[OffsetForLeaderTopic(topic=tp.topic, partitions=[asked])]
    )
    leader = cluster.leader_now(tp)
    response: OffsetForLeaderEpochResponse = cluster.request_to(leader.broker.node_id, request)
    for topic in response.topics:
        for answer in topic.partitions:
            if TopicPartition(topic.topic, answer.partition) == tp:
                return judge(tp, position, answer)
    raise InvalidResponseError(f"the leader's answer leaves out partition {tp}")


def judge(tp: TopicPartition, position: Position, answer: EpochEndOffset) -> Truncated | None:
    """What the leader's answer for the epoch of ``position`` means."""
    if answer.error_code:
        error = error_for(answer.error_code)
        raise type(error)(f"validating partition {tp} at offset {position.offset}: {error.message}")
    if answer.end_offset == _UNKNOWN_OFFSET or answer.leader_epoch == NO_EPOCH:
        return Truncated(None)
    if answer.end_offset < position.offset:
        return Truncated(Position(answer.end_offset, answer.leader_epoch))
    return None
