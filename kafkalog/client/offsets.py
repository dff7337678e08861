"""Offsets by time: the first, the last, or the first record that is not older than a timestamp (ListOffsets)."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TypeAlias

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import about, is_retriable, left_out
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

__all__ = ["EARLIEST", "LATEST", "Answers", "ask_leaders", "list_offsets", "list_offsets_each"]

Answers: TypeAlias = dict[TopicPartition, OffsetAndTimestamp | Exception]
"""The offset or the error of each partition."""
_SINCE = {MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9}
"""The first versions of ListOffsets that know these timestamps; older brokers would take them for times."""


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
        KafkaError: A partition has an error that is not retriable, such as UnknownTopicOrPartitionError.
    """
    retry = cluster.retry(deadline)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    old: set[TopicPartition] = set()
    while True:
        remaining = {tp: timestamp for tp, timestamp in timestamps.items() if tp not in found and tp not in old}
        if not remaining:
            return {tp: found[tp] for tp in timestamps if tp in found}
        more, failed = _ask_once(
            cluster, remaining, isolation_level, retry.deadline, old if leave_out_old_formats else None
        )
        found |= more
        if failed:
            retry.after(next(iter(failed.values())))
            cluster.forget({tp.topic for tp in failed})


def list_offsets_each(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int, deadline: float
) -> Answers:
    """Find offsets as `list_offsets` does; return the last error of each partition that has none until `deadline`.

    Raises:
        KafkaError, ClientError: A partition has an error that is not retriable.
    """
    retry = cluster.retry(deadline)
    answers: Answers = {}
    while remaining := {tp: timestamp for tp, timestamp in timestamps.items() if tp not in answers}:
        more, failed = _ask_once(cluster, remaining, isolation_level, deadline)
        answers |= more
        if failed:
            answers |= retry.after_each(failed)
            cluster.forget({tp.topic for tp in failed})
    return answers


def _ask_once(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int,
    deadline: float,
    old: set[TopicPartition] | None = None,
) -> tuple[dict[TopicPartition, OffsetAndTimestamp], dict[TopicPartition, Exception]]:
    """Return the offsets that were found, and the errors that another try may mend.

    Partitions of formats without timestamps are added to `old`, if it is given.

    Raises:
        KafkaError, ClientError: A partition has another error.
    """
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    failed: dict[TopicPartition, Exception] = {}
    for tp, answer in ask_leaders(cluster, timestamps, isolation_level, deadline).items():
        if not isinstance(answer, Exception):
            found[tp] = answer
        elif is_retriable(answer):
            failed[tp] = answer
        elif old is not None and isinstance(answer, UnsupportedForMessageFormatError):
            old.add(tp)
        else:
            raise answer
    return found, failed


def ask_leaders(
    cluster: Cluster, timestamps: Mapping[TopicPartition, int], isolation_level: int, deadline: float
) -> Answers:
    """Find offsets as `list_offsets` does, but ask each leader only once, until `deadline` (`time.monotonic`).

    Return an offset or an error for each partition. The error of one partition does not keep the others' offsets back.
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
    for node_id, topics in by_leader.items():
        asked = [TopicPartition(name, each.partition_index) for name, parts in topics.items() for each in parts]
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        timeout = min(cluster.config.request_timeout, max(deadline - time.monotonic(), 0.001))
        least = max(_SINCE.get(timestamps[tp], 0) for tp in asked)
        try:
            response = cluster.request_to(node_id, request, timeout=timeout, min_version=least)
            answers |= _answers(response, asked)
        except Exception as error:
            answers |= dict.fromkeys(asked, error)
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
