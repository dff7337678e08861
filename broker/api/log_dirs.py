"""DescribeLogDirs (key 35): what lies in which directory, and how big it is."""

from __future__ import annotations

import shutil
from collections import defaultdict
from pathlib import Path

from broker.api.context import Request
from broker.log.log_dir import LogDir
from broker.replica.partition import Partition
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)


def handle_describe_log_dirs(request: Request) -> None:
    message: DescribeLogDirsRequest = request.message
    wanted = None if message.topics is None else {topic.topic: set(topic.partitions) for topic in message.topics}
    by_dir: dict[Path, list[Partition]] = defaultdict(list)
    for partition in request.broker.replicas:
        if wanted is None or partition.index in wanted.get(partition.topic, ()):
            by_dir[partition.log.dir.parent].append(partition)
    results = [_describe(entry, by_dir[entry.path]) for entry in request.broker.replicas.logs.log_dirs]
    request.reply(DescribeLogDirsResponse(results=results))


def _describe(directory: LogDir, partitions: list[Partition]) -> DescribeLogDirsResult:
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
    for partition in sorted(partitions, key=lambda item: item.key):
        topic = topics.setdefault(partition.topic, DescribeLogDirsTopic(name=partition.topic))
        topic.partitions.append(
            DescribeLogDirsPartition(partition_index=partition.index, partition_size=partition.log.size, offset_lag=0)
        )
    result.topics = list(topics.values())
    return result


HANDLERS = {DescribeLogDirsRequest: handle_describe_log_dirs}
