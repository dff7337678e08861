"""Offsets by time: the first, the last, or the first record that is not older than a timestamp (ListOffsets)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TypeAlias

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import about, is_retriable, left_out
from kafkalog.client.network.at_once import ask_at_once
from kafkalog.client.outcomes import ask_until_final, values_of
from kafkalog.client.types import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
    READ_UNCOMMITTED,
    OffsetAndTimestamp,
    TopicPartition,
)
from kafkalog.protocol.errors import UnsupportedForMessageFormatError
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kafkalog.protocol.wire.releases import TIME_OF_LOCAL_START, TIME_OF_MAX_TIMESTAMP, TIME_OF_TIERED_END

__all__ = ["EARLIEST", "LATEST", "Answers", "ask_leaders", "list_offsets", "list_offsets_each"]

Answers: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | Exception]
"""The offset or the error of each partition."""
_SINCE = {
    MAX_TIMESTAMP: TIME_OF_MAX_TIMESTAMP.version,
    EARLIEST_LOCAL: TIME_OF_LOCAL_START.version,
    LATEST_TIERED: TIME_OF_TIERED_END.version,
}
"""The first versions of ListOffsets that know these timestamps."""


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int = READ_UNCOMMITTED,
    deadline: float | None = None,
    *,
    leave_out_old_formats: bool = False,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Find the offset of each partition's first record with at least the given timestamp (ms; -2 earliest, -1 latest).

    Each leader is asked once for all of its partitions. Partitions that fail with a retriable error are asked for again
    until `deadline` (`time.monotonic`; `default.api.timeout.ms` from now unless given).

    Messages of formats before Kafka 0.10 have no timestamps, so their leaders look nothing up by time.
    `leave_out_old_formats` leaves out such partitions, as Java's consumer does (`OffsetFetcherUtils`). Otherwise that
    is an error, as it is to Java's administration client.

    Raises:
        ClientTimeoutError: The deadline has passed.
        KafkaError: A partition has an error that another try does not mend, such as UnknownTopicOrPartitionError. It is
            raised at once, also while other partitions have no offset yet.
    """
    retry = cluster.retry(deadline)

    def ask(left: Collection[TopicPartition]) -> dict[TopicPartition, OffsetAndTimestamp | Exception | None]:
        answers = ask_leaders(cluster, {tp: timestamps[tp] for tp in left}, isolation_level, retry.deadline)
        if not leave_out_old_formats:
            return {**answers}
        is_old = UnsupportedForMessageFormatError
        return {tp: None if isinstance(answer, is_old) else answer for tp, answer in answers.items()}

    found: dict[TopicPartition, OffsetAndTimestamp | None] = {}
    for outcomes in ask_until_final(cluster, timestamps.keys(), ask, retry):
        # An error ends the call at once, whatever leaders are still waited for.
        found |= values_of(outcomes)
    return {tp: offset for tp in timestamps if (offset := found[tp]) is not None}


def list_offsets_each(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int = READ_UNCOMMITTED,
    deadline: float | None = None,
) -> Answers:
    """Find offsets as `list_offsets` does; return each partition's offset, or its error.

    An error of one partition does not keep the others from being asked for until `deadline`. ClientTimeoutError is the
    error where a leader could not be asked in time.
    """
    retry = cluster.retry(deadline)

    def ask(left: Collection[TopicPartition]) -> Answers:
        return ask_leaders(cluster, {tp: timestamps[tp] for tp in left}, isolation_level, retry.deadline)

    answers: Answers = {}
    for outcomes in ask_until_final(cluster, timestamps.keys(), ask, retry):
        answers |= outcomes
    return {tp: answers[tp] for tp in timestamps}


def ask_leaders(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int, deadline: float
) -> Answers:
    """Find offsets as `list_offsets` does, but ask each leader only once, until `deadline` (`time.monotonic`).

    Return an offset or an error for each partition. All leaders are asked at once: one that does not answer holds up
    its own partitions only. After an error that may pass, the next call asks for the leaders again.
    """
    answers: Answers = {}
    by_leader: dict[int, dict[str, list[ListOffsetsPartition]]] = defaultdict(lambda: defaultdict(list))
    for tp, leader in cluster.leaders_now(timestamps.keys(), deadline).items():
        if isinstance(leader, Exception):
            answers[tp] = leader
            continue
        by_leader[leader.broker.node_id][tp.topic].append(
            ListOffsetsPartition(
                partition_index=tp.partition, current_leader_epoch=leader.epoch, timestamp=timestamps[tp]
            )
        )

    def partitions_of(node_id: int) -> list[TopicPartition]:
        return [
            TopicPartition(name, each.partition_index) for name, parts in by_leader[node_id].items() for each in parts
        ]

    def ask(node_id: int) -> Answers:
        asked = partitions_of(node_id)
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in by_leader[node_id].items()],
        )
        timeout = min(cluster.config.request_timeout, max(deadline - time.monotonic(), 0.001))
        least = max(_SINCE.get(timestamps[tp], 0) for tp in asked)
        response = cluster.request_to(node_id, request, timeout=timeout, min_version=least)
        return _answers(response, asked)

    for node_id, found in ask_at_once(by_leader, ask).items():
        answers |= dict.fromkeys(partitions_of(node_id), found) if isinstance(found, Exception) else found
    if failed := {tp.topic for tp, each in answers.items() if isinstance(each, Exception) and is_retriable(each)}:
        cluster.forget(failed)
    return answers


def _answers(response: ListOffsetsResponse, asked: Collection[TopicPartition]) -> Answers:
    """Return what a leader has answered of each partition that it was asked for."""
    answers: Answers = {tp: left_out(f"partition {tp}") for tp in asked}
    for topic in response.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if tp not in answers:
                continue
            if each.error_code:
                answers[tp] = about(each.error_code, f"partition {tp}")
            else:
                answers[tp] = OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
    return answers
