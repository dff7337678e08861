"""Names of the files and directories of a log, as Apache Kafka gives them.

Files in a partition's directory are named by the base offset of their segment, in decimal, zero-padded to 20
digits::

    00000000000000000000.log          record batches
    00000000000000000000.index        offset index
    00000000000000000000.timeindex    time index
    00000000000000000000.txnindex     aborted transactions, only where there are some
    00000000000000000000.snapshot     producer state up to (not including) that offset
    leader-epoch-checkpoint           (epoch, start offset) rows
    partition.metadata                topic id

Endings put after those: ``.deleted`` (waiting to be removed), ``.cleaned`` (output of a compaction under
way), ``.swap`` (compaction output being moved into place). A directory is ``topic-partition``;
``topic-partition.<32 hex>-delete`` waits to be removed, ``…-future`` and ``…-stray`` are replicas in transit
and replicas nobody knows.
"""

from __future__ import annotations

import uuid

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

DELETE_DIR = "-delete"
FUTURE_DIR = "-future"
STRAY_DIR = "-stray"

LEADER_EPOCH_CHECKPOINT = "leader-epoch-checkpoint"
PARTITION_METADATA = "partition.metadata"
RECOVERY_POINT_CHECKPOINT = "recovery-point-offset-checkpoint"
LOG_START_CHECKPOINT = "log-start-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT = "replication-offset-checkpoint"
CLEANER_CHECKPOINT = "cleaner-offset-checkpoint"
CLEAN_SHUTDOWN = ".kafka_cleanshutdown"
LOCK = ".lock"
META_PROPERTIES = "meta.properties"
MOVED_FROM = "kafkalog.moved-from"

# What the file systems in use allow for one name.
MAX_NAME = 255


def segment_name(base_offset: int, suffix: str) -> str:
    """File name of a segment's part, e.g. ``segment_name(7, LOG)``."""
    return f"{base_offset:020d}{suffix}"


def offset_of(file_name: str) -> int | None:
    """Base offset in a segment file's name, or None when the name has none."""
    digits = file_name.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


def partition_dir(topic: str, partition: int) -> str:
    """Directory name of a partition."""
    return f"{topic}-{partition}"


def delete_dir(topic: str, partition: int, kind: str = DELETE_DIR) -> str:
    """A fresh directory name for a partition out of service; the topic is cut to fit the file system."""
    ending = f"-{partition}.{uuid.uuid4().hex}{kind}"
    return topic[: MAX_NAME - len(ending)] + ending


def future_dir(topic: str, partition: int) -> str:
    """A fresh directory name for the copy that a move makes; not cut, for it tells whose copy it is."""
    return f"{topic}-{partition}.{uuid.uuid4().hex}{FUTURE_DIR}"


def parse_partition_dir(name: str) -> tuple[str, int] | None:
    """``(topic, partition)`` of a directory name of either form, or None when it is no partition's."""
    if name.endswith((DELETE_DIR, FUTURE_DIR, STRAY_DIR)) and "." in name:
        name = name[: name.rindex(".")]
    topic, dash, digits = name.rpartition("-")
    if not topic or not dash or not digits.isascii() or not digits.isdigit():
        return None
    return topic, int(digits)
