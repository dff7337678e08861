"""A position in a partition, and how it is validated after a change of leaders (KIP-320).

A consumer that finds a new leader epoch asks the leader, by OffsetForLeaderEpoch, where the epoch of the last record
that it read ends in the leader's log. If it ends before the position, the log was truncated.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kafkalog.client.errors import about
from kafkalog.client.types import OffsetAndMetadata, TopicPartition
from kafkalog.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

NO_EPOCH = -1
_CONSUMER = -1
_UNKNOWN_OFFSET = -1


class FetchPosition(NamedTuple):
    """The next offset to read, and the leader epoch of the record before it (-1 where that is unknown)."""

    offset: int
    epoch: int = NO_EPOCH


def checked_position(given: OffsetAndMetadata) -> FetchPosition:
    """Return the position that an application gives.

    Raises:
        ValueError: No request can hold it. A request would fail for all partitions of its broker.
    """
    offset, epoch, _ = given
    if offset < 0:
        raise ValueError(f"offset {offset} is negative; seek_to_beginning and seek_to_end find the ends")
    if offset >= 1 << 63 or not NO_EPOCH <= epoch < 1 << 31:
        raise ValueError(f"no log has offset {offset} of leader epoch {epoch}")
    return FetchPosition(offset, epoch)


class Truncation(NamedTuple):
    """A leader's log was truncated below a position.

    `end` is the first offset at which the log differs from what was read; None where it is unknown.
    """

    end: FetchPosition | None


def validation_request(partitions: Iterable[tuple[TopicPartition, FetchPosition, int]]) -> OffsetForLeaderEpochRequest:
    """Make the request that asks a leader where the epochs of positions end in its log.

    `partitions` has, for each partition, the position and the epoch of its leader.
    """
    topics: dict[str, OffsetForLeaderTopic] = {}
    for tp, position, leader_epoch in partitions:
        topic = topics.setdefault(tp.topic, OffsetForLeaderTopic(topic=tp.topic))
        topic.partitions.append(
            OffsetForLeaderPartition(
                partition=tp.partition, current_leader_epoch=leader_epoch, leader_epoch=position.epoch
            )
        )
    return OffsetForLeaderEpochRequest(replica_id=_CONSUMER, topics=list(topics.values()))


def find_truncation(tp: TopicPartition, position: FetchPosition, answer: EpochEndOffset) -> Truncation | None:
    """Compare a position with the leader's answer; None where the log holds everything before the position.

    Raises:
        KafkaError: The leader reports it, such as FencedLeaderEpochError or UnknownLeaderEpochError.
    """
    if answer.error_code:
        raise about(answer.error_code, f"validating partition {tp} at offset {position.offset}")
    if answer.end_offset == _UNKNOWN_OFFSET or answer.leader_epoch == NO_EPOCH:
        return Truncation(None)
    if answer.end_offset < position.offset:
        return Truncation(FetchPosition(answer.end_offset, answer.leader_epoch))
    return None
