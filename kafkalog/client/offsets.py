"""Offsets by time: the first, the last, or the first record that is not older than a timestamp (ListOffsets)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from kafkalog.client.cluster import Cluster
from kafkalog.client.errors import is_retriable
from kafkalog.client.retry import Retry
from kafkalog.client.types import EARLIEST, LATEST, READ_UNCOMMITTED, OffsetAndTimestamp, TopicPartition
from kafkalog.protocol.errors import error_for
from kafkalog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

__all__ = ["EARLIEST", "LATEST", "list_offsets"]


def list_offsets(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    isolation_level: int = READ_UNCOMMITTED,
    deadline: float | None = None,
) -> dict[TopicPartition, OffsetAndTimestamp]:
    """Find the offset of each partition's first record with at least the given timestamp (ms; -2 earliest, -1 latest).

    Each leader is asked once for all of its partitions. Partitions that fail with a retriable error are asked for again
    until `deadline` (`time.monotonic`; `default.api.timeout.ms` from now unless given).

    Raises:
        ClientTimeoutError: The deadline has passed.
        KafkaError: A partition has an error that is not retriable, such as UnknownTopicOrPartitionError.
    """
    retry = cluster.retry(deadline)
    found: dict[TopicPartition, OffsetAndTimestamp] = {}
    while True:
        remaining = [tp for tp in timestamps if tp not in found]
        if not remaining:
            return {tp: found[tp] for tp in timestamps}
        failed = _ask(cluster, timestamps, remaining, isolation_level, retry, found)
        if failed:
            retry.after(next(iter(failed.values())))
            cluster.forget({tp.topic for tp in failed})


def _ask(
    cluster: Cluster,
    timestamps: Mapping[TopicPartition, int],
    partitions: list[TopicPartition],
    isolation_level: int,
    retry: Retry,
    found: dict[TopicPartition, OffsetAndTimestamp],
) -> dict[TopicPartition, Exception]:
    """Ask every leader once; return the partitions that failed with a retriable error."""
    failed: dict[TopicPartition, Exception] = {}
    by_leader: dict[int, list[tuple[TopicPartition, int]]] = defaultdict(list)
    try:
        cluster.metadata({tp.topic for tp in partitions}, deadline=retry.deadline)
    except Exception as error:
        return dict.fromkeys(partitions, _retriable(error))
    for tp in partitions:
        try:
            leader = cluster.leader_now(tp, retry.deadline)
            by_leader[leader.broker.node_id].append((tp, leader.epoch))
        except Exception as error:
            failed[tp] = _retriable(error)
    for node_id, asked in by_leader.items():
        topics: dict[str, list[ListOffsetsPartition]] = defaultdict(list)
        for tp, epoch in asked:
            topics[tp.topic].append(
                ListOffsetsPartition(partition_index=tp.partition, current_leader_epoch=epoch, timestamp=timestamps[tp])
            )
        request = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()],
        )
        try:
            response: ListOffsetsResponse = cluster.request_to(
                node_id, request, timeout=min(cluster.config.request_timeout, max(retry.left, 0.001))
            )
        except Exception as error:
            failed.update(dict.fromkeys((tp for tp, _ in asked), _retriable(error)))
            continue
        _take(response, {tp for tp, _ in asked}, found, failed)
    return failed


def _take(
    response: ListOffsetsResponse,
    asked: set[TopicPartition],
    found: dict[TopicPartition, OffsetAndTimestamp],
    failed: dict[TopicPartition, Exception],
) -> None:
    for topic in response.topics:
        for each in topic.partitions:
            tp = TopicPartition(topic.name, each.partition_index)
            if tp not in asked:
                continue
            if each.error_code:
                error = error_for(each.error_code)
                failed[tp] = _retriable(type(error)(f"partition {tp}: {error.message}"))
            else:
                found[tp] = OffsetAndTimestamp(each.offset, each.timestamp, each.leader_epoch)
    for tp in asked - found.keys() - failed.keys():
        failed[tp] = error_for(-1, f"the broker's answer leaves out partition {tp}")
        raise failed[tp]


def _retriable(error: Exception) -> Exception:
    if not is_retriable(error):
        raise error
    return error
