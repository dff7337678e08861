"""Whether a leader's log still has what a consumer has read: KIP-320, by OffsetForLeaderEpoch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkalog.client.consumer.positions import NO_EPOCH, Position
from kafkalog.client.types import TopicPartition
from kafkalog.protocol.errors import error_for
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

_CONSUMER = -1
_UNKNOWN_OFFSET = -1


class Truncated(NamedTuple):
    """A log was cut. ``end``: the first offset at which it differs from what was read; None where nobody knows."""

    end: Position | None


def epochs_request(partitions: Iterable[tuple[TopicPartition, Position, int]]) -> OffsetForLeaderEpochRequest:
    """Ask a leader where the epochs of (partition, position, the leader's own epoch) end in its log."""
    topics: dict[str, OffsetForLeaderTopic] = {}
    for tp, position, leader_epoch in partitions:
        topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=leader_epoch, leader_epoch=position.epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))


def judge(tp: TopicPartition, position: Position, answer: EpochEndOffset) -> Truncated | None:
    """What the leader's answer for the epoch of ``position`` means: None where its log holds what comes before it.

    Raises the error that the leader reports, FencedLeaderEpochError and UnknownLeaderEpochError among them.
    """
    if answer.error_code:
        error = error_for(answer.error_code)
        raise type(error)(f"validating partition {tp} at offset {position.offset}: {error.message}")
    if answer.end_offset == _UNKNOWN_OFFSET or answer.leader_epoch == NO_EPOCH:
        return Truncated(None)
    if answer.end_offset < position.offset:
        return Truncated(Position(answer.end_offset, answer.leader_epoch))
    return None
