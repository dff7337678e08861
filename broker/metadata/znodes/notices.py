"""Nodes with which brokers and tools tell of a change, or ask the controller for something.

A broker that changed a configuration makes a sequential node below `/config/changes`, after the configuration itself. A
leader that wrote an ISR (before 2.7) makes one below `/isr_change_notification`, and a broker that lost a log directory
one below `/log_dir_event_notification`. Tools write `/admin/reassign_partitions` and
`/admin/preferred_replica_election`; the controller deletes them when it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from broker.metadata.znodes import paths
from broker.metadata.znodes.json_node import ZnodeError, integer, integers, read, read_string, text, write

TopicPartition = tuple[str, int]
VERSION = 1
CHANGE_VERSION = 2
_MARK = "kafkalog_write"
_REASON = "kafkalog_reason"
LOG_DIR_FAILED = 1


def encode_config_change(entity: str, mark: str | None = None) -> bytes:
    """Return the data of a notice about the configuration at `/config/<entity>`, such as `topics/words`.

    Args:
        mark: names the write, so that its writer can recognize it (`mark_of`). Kafka ignores it.
    """
    content = {"version": CHANGE_VERSION, "entity_path": entity}
    return write(content if mark is None else {**content, _MARK: mark})


def mark_of(data: bytes) -> str | None:
    """Return the mark of a notice; None if it has none."""
    try:
        return read("", data, lambda found: text(found[_MARK]))
    except ZnodeError:
        return None


def decode_config_change(path: str, data: bytes) -> str:
    """Return which configuration changed, such as `topics/words`.

    Version 1 (0.9) has a type and a name in place of a path. A notice of 0.8 is only a topic's name.

    Raises:
        ZnodeError: The data cannot be read.
    """
    topic = read_string(data)
    if topic is not None:
        return f"topics/{topic}"

    def take(found: dict[str, Any]) -> str:
        version = integer(found["version"])
        if version == 1:
            return f"{text(found['entity_type'])}/{text(found['entity_name'])}"
        if version != CHANGE_VERSION:
            raise ValueError(f"version {version} is not known")
        return text(found["entity_path"])

    return read(path, data, take)


def encode_isr_change(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the data of a notice about changed ISRs."""
    return _encode_partitions(partitions)


def decode_isr_change(path: str, data: bytes) -> frozenset[TopicPartition]:
    """Return the partitions whose ISR changed.

    Raises:
        ZnodeError: The data cannot be read.
    """
    return frozenset(_decode_partitions(path, data))


def encode_log_dir_event(broker_id: int, reason: str | None = None) -> bytes:
    """Return the data of a notice that has the controller tell a broker all its roles again.

    Args:
        broker_id: the broker.
        reason: why; None where a log directory has failed. Kafka ignores it.
    """
    content = {"version": VERSION, "broker": broker_id, "event": LOG_DIR_FAILED}
    return write(content if reason is None else {**content, _REASON: reason})


def log_dir_event_reason(data: bytes) -> str | None:
    """Return the reason of such a notice; None where a log directory has failed."""
    try:
        return read("", data, lambda found: text(found[_REASON]))
    except ZnodeError:
        return None


def decode_log_dir_event(path: str, data: bytes) -> int:
    """Return the broker that lost a log directory.

    Raises:
        ZnodeError: The data cannot be read.
    """
    return read(path, data, lambda found: integer(found["broker"]))


def encode_preferred_election(partitions: Iterable[TopicPartition]) -> bytes:
    """Return the data of the order to elect the preferred leaders of `partitions`."""
    return _encode_partitions(partitions)


def decode_preferred_election(data: bytes) -> frozenset[TopicPartition]:
    """Return the partitions whose preferred leaders are to be elected.

    Raises:
        ZnodeError: The data cannot be read.
    """
    return frozenset(_decode_partitions(paths.PREFERRED_ELECTION, data))


def encode_reassignment(replicas: Mapping[TopicPartition, tuple[int, ...]]) -> bytes:
    """Return the data of the order to give partitions other replicas."""
    return write(
        {
            "version": VERSION,
            "partitions": [
                {"topic": topic, "partition": index, "replicas": brokers}
                for (topic, index), brokers in replicas.items()
            ],
        }
    )


def decode_reassignment(data: bytes) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the replicas that partitions are to have.

    Raises:
        ZnodeError: The data cannot be read.
    """

    def take(found: dict[str, Any]) -> dict[TopicPartition, tuple[int, ...]]:
        return {
            (text(each["topic"]), integer(each["partition"])): integers(each["replicas"])
            for each in found["partitions"]
        }

    return read(paths.REASSIGN_PARTITIONS, data, take)


def _encode_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    named = [{"topic": topic, "partition": index} for topic, index in partitions]
    return write({"version": VERSION, "partitions": named})


def _decode_partitions(path: str, data: bytes) -> list[TopicPartition]:
    return read(
        path, data, lambda found: [(text(each["topic"]), integer(each["partition"])) for each in found["partitions"]]
    )
