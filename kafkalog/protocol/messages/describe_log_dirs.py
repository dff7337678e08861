"""DescribeLogDirs (key 35, versions 0 to 4): the broker's log directories, and the size of each partition in them.

Version 2 is flexible, 3 has an error for all, 4 tells the volume's bytes.

Errors: KAFKA_STORAGE_ERROR of a directory, LOG_DIR_NOT_FOUND, CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, boolean, int16, int32, int64, string


class DescribeLogDirsPartition(Struct):
    partition_index: int = int32("0+")
    partition_size: int = int64("0+")
    offset_lag: int = int64("0+")  # how far the log end is behind the high watermark, or a future copy behind the log
    is_future_key: bool = boolean("0+")  # the copy that a move to another directory makes


class DescribeLogDirsTopic(Struct):
    name: str = string("0+")
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition, "0+")


class DescribeLogDirsResult(Struct):
    error_code: int = int16("0+")  # KAFKA_STORAGE_ERROR where the directory failed
    log_dir: str = string("0+")
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic, "0+")
    total_bytes: int = int64("4+", default=-1, ignorable=True)  # of the volume; -1 where unknown
    usable_bytes: int = int64("4+", default=-1, ignorable=True)  # of the volume; -1 where unknown


class DescribeLogDirsResponse(Response, key=35, versions="0-4", flexible="2+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult, "0+")


class DescribableLogDirTopic(Struct):
    topic: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class DescribeLogDirsRequest(Request, key=35, versions="0-4", flexible="2+"):
    # null for all
    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, "0+", nullable="0+")
