"""AlterReplicaLogDirs (key 34, versions 0 to 2): move partitions to other log directories of a broker (KIP-113).

The broker that is asked moves its own replicas, and answers when a move has begun; DescribeLogDirs tells how far it is.
Version 2 is flexible.

Errors of a partition: LOG_DIR_NOT_FOUND, KAFKA_STORAGE_ERROR, REPLICA_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION
where the broker does not hold it (it remembers the directory for when it will), INVALID_TOPIC_EXCEPTION for too long
a name, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, int16, int32, string


class AlterReplicaLogDirPartitionResult(Struct):
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class AlterReplicaLogDirTopicResult(Struct):
    topic_name: str = string("0+")
    partitions: list[AlterReplicaLogDirPartitionResult] = array(AlterReplicaLogDirPartitionResult, "0+")


class AlterReplicaLogDirsResponse(Response, key=34, versions="0-2", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    results: list[AlterReplicaLogDirTopicResult] = array(AlterReplicaLogDirTopicResult, "0+")


class AlterReplicaLogDirTopic(Struct):
    name: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class AlterReplicaLogDir(Struct):
    path: str = string("0+")  # absolute, one of log.dirs
    topics: list[AlterReplicaLogDirTopic] = array(AlterReplicaLogDirTopic, "0+")


class AlterReplicaLogDirsRequest(Request, key=34, versions="0-2", flexible="2+"):
    dirs: list[AlterReplicaLogDir] = array(AlterReplicaLogDir, "0+")
