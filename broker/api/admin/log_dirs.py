"""DescribeLogDirs (key 35) and AlterReplicaLogDirs (key 34): which log directory holds which replica."""

from __future__ import annotations

import logging
import shutil
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from broker.api.authorization import needs_cluster
from broker.api.context import Request
from broker.api.errors import error_code
from broker.log.directories.log_dir import LogDir
from broker.replica.hosting.log_dirs import alter_log_dir
from kafkalog.protocol.acls import AclOperation
from kafkalog.protocol.errors import ClusterAuthorizationFailedError, ErrorCode
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kafkalog.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

LOOKED_AT_ONCE = 10_000
"""The number of partitions that are examined in one step."""
logger = logging.getLogger(__name__)


class _Row(NamedTuple):
    """A partition, or the copy that a move makes of it, in a directory."""

    key: tuple[str, int]
    size: int
    offset_lag: int
    is_future: bool


@needs_cluster(AclOperation.DESCRIBE)
async def handle_describe_log_dirs(request: Request) -> None:
    message: DescribeLogDirsRequest = request.message
    replicas = request.broker.replicas
    wanted = None if message.topics is None else await _wanted(request, message.topics)
    by_dir: dict[Path, list[_Row]] = defaultdict(list)
    async for partition in request.each(list(replicas)):
        if wanted is None or partition.index in wanted.get(partition.topic, ()):
            by_dir[partition.log.log_dir].append(_Row(partition.key, partition.log.size, 0, False))
            future = replicas.logs.futures.get(partition.key)
            if future is not None:
                by_dir[future.log_dir].append(_Row(partition.key, future.size, future.offset_lag, True))
    results = [_describe(entry, by_dir[entry.path]) for entry in replicas.logs.log_dirs]
    await request.answer(DescribeLogDirsResponse(results=results))


async def _wanted(request: Request, topics: Iterable[DescribableLogDirTopic]) -> dict[str, set[int]]:
    """Return the requested partitions that this broker has."""
    hosted: dict[str, set[int]] = defaultdict(set)
    async for partition in request.each(list(request.broker.replicas)):
        hosted[partition.topic].add(partition.index)
    wanted: dict[str, set[int]] = defaultdict(set)
    async for topic in request.each(topics):
        here = hosted.get(topic.topic)
        if here:
            async for first in request.each(range(0, len(topic.partitions), LOOKED_AT_ONCE)):
                wanted[topic.topic] |= here.intersection(topic.partitions[first : first + LOOKED_AT_ONCE])
    return wanted


def _describe(directory: LogDir, rows: list[_Row]) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=str(directory.path))
    if directory.offline is not None:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    try:
        usage = shutil.disk_usage(directory.path)
        result.total_bytes, result.usable_bytes = usage.total, usage.free
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return result
    topics: dict[str, DescribeLogDirsTopic] = {}
    for row in sorted(rows):
        topic = topics.setdefault(row.key[0], DescribeLogDirsTopic(name=row.key[0]))
        topic.partitions.append(
            DescribeLogDirsPartition(
                partition_index=row.key[1],
                partition_size=row.size,
                offset_lag=row.offset_lag,
                is_future_key=row.is_future,
            )
        )
    result.topics = list(topics.values())
    return result


async def handle_alter_replica_log_dirs(request: Request) -> None:
    message: AlterReplicaLogDirsRequest = request.message
    # If a partition is named twice, the last log directory counts, as with Apache Kafka.
    wanted: dict[tuple[str, int], str] = {}
    async for directory in request.each(message.dirs):
        async for topic in request.each(directory.topics):
            async for index in request.each(topic.partitions):
                wanted[topic.name, index] = directory.path
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    is_allowed = request.allows_cluster(AclOperation.ALTER)
    failed, example = 0, ""
    async for (name, index), path in request.each(wanted.items()):
        result = AlterReplicaLogDirPartitionResult(partition_index=index)
        try:
            if not is_allowed:
                raise ClusterAuthorizationFailedError
            alter_log_dir(request.broker.replicas, name, index, path)
        except Exception as error:
            result.error_code = error_code(error)
            failed += 1
            example = example or f"{name}-{index}: {error}"
        if name not in results:
            results[name] = AlterReplicaLogDirTopicResult(topic_name=name)
        results[name].partitions.append(result)
    if failed and is_allowed:
        # One line, however many partitions a client names.
        logger.warning("Unable to alter the log directory of %d partitions, the first of them %s", failed, example)
    await request.answer(AlterReplicaLogDirsResponse(results=list(results.values())), wanted)


HANDLERS = {
    DescribeLogDirsRequest: handle_describe_log_dirs,
    AlterReplicaLogDirsRequest: handle_alter_replica_log_dirs,
}
