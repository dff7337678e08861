"""Moves of partitions between the log directories of this broker (KIP-113): begins and cancels them."""

from __future__ import annotations

from broker.replica.manager import ReplicaManager
from kafkalog.protocol.errors import (
    InvalidTopicError,
    KafkaStorageError,
    LogDirNotFoundError,
    NotLeaderOrFollowerError,
    ReplicaNotAvailableError,
)
from kafkalog.storage import names


def alter_log_dir(replicas: ReplicaManager, topic: str, index: int, path: str) -> None:
    """Begin to move a partition to the log directory `path`, unless it is there or on its way there.

    A move to another directory is cancelled. If the partition is not here, the directory is remembered for when it
    is created.

    Raises:
        InvalidTopicError: the topic's name is too long for the name of a copy.
        LogDirNotFoundError: the path is none of `log.dirs`.
        KafkaStorageError: a log directory is offline, or the copy cannot be created.
        ReplicaNotAvailableError: the partition is elsewhere in the cluster.
        UnknownTopicOrPartitionError: there is no such partition.
    """
    if len(names.future_dir(topic, index)) > names.MAX_NAME:
        raise InvalidTopicError("The topic name is too long.")
    logs, key = replicas.logs, (topic, index)
    target = next((entry for entry in logs.log_dirs if str(entry.path) == path), None)
    if target is None:
        raise LogDirNotFoundError(f"Log dir {path} is not found in the config.")
    if target.offline is not None:
        raise KafkaStorageError(f"Log directory {path} is offline")
    if replicas.get(topic, index) is None and not replicas.is_offline(topic, index):
        logs.futures.prefer(key, target.path)
    try:
        log = replicas.require(topic, index).log
    except NotLeaderOrFollowerError:
        # Tools know this one of old, as in Kafka.
        raise ReplicaNotAvailableError from None
    future = logs.futures.get(key)
    if future is not None and future.log_dir == target.path:
        return
    logs.futures.cancel(key)
    if log.log_dir == target.path:
        return
    if logs.offline_dirs:
        # One of them may hold an earlier copy.
        offline = ", ".join(str(directory.path) for directory in logs.offline_dirs)
        raise KafkaStorageError(f"Can not create log for {topic}-{index} because log directories {offline} are offline")
    replicas.moves.begin(log, target)
