"""DescribeLogDirs (key 35) and AlterReplicaLogDirs (key 34): what lies in which log directory, and shall lie where."""

from __future__ import annotations

import logging
import shutil
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from broker.api.context import Request
from broker.api.errors import error_code
from broker.log.log_dir import LogDir
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from kafkalog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

logger = logging.getLogger("kafkalog.broker.api")


class _Row(NamedTuple):
    """A partition, or the copy that a move makes of it, in a directory."""

    key: tuple[str, int]
    size: int
    offset_lag: int
    is_future: bool


def handle_describe_log_dirs(request: Request) -> None:
    message: DescribeLogDirsRequest = request.message
    replicas = request.broker.replicas
    wanted = None if message.topics is None else {topic.topic: set(topic.partitions) for topic in message.topics}
    by_dir: dict[Path, list[_Row]] = defaultdict(list)
    for partition in replicas:
        if wanted is None or partition.index in wanted.get(partition.topic, ()):
            by_dir[partition.log.log_dir].append(_Row(partition.key, partition.log.size, 0, False))
            future = replicas.logs.futures.get(partition.key)
            if future is not None:
                by_dir[future.log_dir].append(_Row(partition.key, future.size, future.offset_lag, True))
    results = [_describe(entry, by_dir[entry.path]) for entry in replicas.logs.log_dirs]
    request.reply(DescribeLogDirsResponse(results=results))


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


def handle_alter_replica_log_dirs(request: Request) -> None:
    message: AlterReplicaLogDirsRequest = request.message
    # A partition that is named twice goes where it was named last, as with Apache Kafka.
    wanted = {
        (topic.name, index): directory.path
        for directory in message.dirs
        for topic in directory.topics
        for index in topic.partitions
    }
    results: dict[str, AlterReplicaLogDirTopicResult] = {}
    for (name, index), path in wanted.items():
        result = AlterReplicaLogDirPartitionResult(partition_index=index)
        try:
            request.broker.replicas.alter_log_dir(name, index, path)
        except Exception as error:
            result.error_code = error_code(error)
            logger.warning("Unable to alter the log directory of %s-%d: %s", name, index, error)
        results.setdefault(name, AlterReplicaLogDirTopicResult(topic_name=name)).partitions.append(result)
    request.reply(AlterReplicaLogDirsResponse(results=list(results.values())))


HANDLERS = {
    DescribeLogDirsRequest: handle_describe_log_dirs,
    AlterReplicaLogDirsRequest: handle_alter_replica_log_dirs,
}
