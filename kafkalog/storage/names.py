"""Names of the files and directories of a log, as Apache Kafka gives them.

Files in a partition's directory are named by the base offset of their segment, in decimal, zero-padded to 20 digits::

    00000000000000000000.log          record batches
    00000000000000000000.index        offset index
    00000000000000000000.timeindex    time index
    00000000000000000000.txnindex     aborted transactions, only where there are some
    00000000000000000000.snapshot     producer state up to (not including) that offset
    leader-epoch-checkpoint           (epoch, start offset) rows
    partition.metadata                topic id

These names may have endings: `.deleted` (waits to be removed), `.cleaned` (output of a running compaction) and
`.swap` (output of a compaction that is being moved into place). A crash leaves such files behind; the broker handles
them at its next start (`kafkalog.storage.listing`).

A directory is `topic-partition`. `topic-partition.<32 hex>-delete` waits to be removed,
`topic-partition.<32 hex>-future` is the copy that a move between log directories makes, and
`topic-partition.<32 hex>-stray` is a replica that is not in use; a file `kafkalog.stray` in it may say since when and
why. Partitions are numbered from 0 to 2^31 - 1, without leading zeros.

At the top of a log directory, beside the partitions' directories, lie the four offset checkpoints, `meta.properties`,
the lock, and the marker of a clean stop (`kafkalog.storage.checkpoints`, `kafkalog.storage.properties`).
"""

from __future__ import annotations

import re
import uuid
from typing import NamedTuple

from kafkalog.storage.topics import is_legal_topic

LOG = ".log"
INDEX = ".index"
TIME_INDEX = ".timeindex"
TXN_INDEX = ".txnindex"
SNAPSHOT = ".snapshot"
DELETED = ".deleted"
CLEANED = ".cleaned"
SWAP = ".swap"

SEGMENT_FILES = (LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT)
LEFTOVERS = (DELETED, CLEANED, SWAP)

DELETE_DIR = "-delete"
FUTURE_DIR = "-future"
STRAY_DIR = "-stray"
OUT_OF_SERVICE = (DELETE_DIR, FUTURE_DIR, STRAY_DIR)
"""The endings of partition directories that are not in service."""

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
STRAY = "kafkalog.stray"

OFFSET_CHECKPOINTS = (
    RECOVERY_POINT_CHECKPOINT,
    LOG_START_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    CLEANER_CHECKPOINT,
)

MAX_NAME = 255
"""The longest file name that common file systems allow."""
MAX_PARTITION = (1 << 31) - 1

_SEGMENT_FILE = re.compile(r"([0-9]{20})(\.(?:log|index|timeindex|txnindex|snapshot))((?:\.(?:deleted|cleaned|swap))*)")


# -- files of a segment ------------------------------------------------------------------------------------------------


class SegmentFile(NamedTuple):
    """The parts of a segment file's name."""

    base_offset: int
    kind: str
    """One of `SEGMENT_FILES`."""
    ending: str
    """One or more of `LEFTOVERS`, or empty."""


def segment_name(base_offset: int, suffix: str) -> str:
    """Return the name of a segment's file, for example `segment_name(7, LOG)`."""
    return f"{base_offset:020d}{suffix}"


def parse_segment_name(file_name: str) -> SegmentFile | None:
    """Parse the name of a segment's file; return None for every other name."""
    match = _SEGMENT_FILE.fullmatch(file_name)
    return None if match is None else SegmentFile(int(match[1]), match[2], match[3])


def offset_of(file_name: str) -> int | None:
    """Return the base offset in a segment file's name, or None if there is none."""
    digits = file_name.partition(".")[0]
    return int(digits) if digits.isascii() and digits.isdigit() else None


# -- directories of partitions -----------------------------------------------------------------------------------------


def partition_dir(topic: str, partition: int) -> str:
    """Return the name of a partition's directory."""
    return f"{topic}-{partition}"


def delete_dir(topic: str, partition: int, kind: str = DELETE_DIR) -> str:
    """Make a new directory name for a partition out of service; the topic is shortened to fit the file system."""
    ending = f"-{partition}.{uuid.uuid4().hex}{kind}"
    return topic[: MAX_NAME - len(ending)] + ending


def future_dir(topic: str, partition: int) -> str:
    """Make a new directory name for the copy that a move makes; not shortened, because it identifies the partition."""
    return f"{topic}-{partition}.{uuid.uuid4().hex}{FUTURE_DIR}"


def parse_partition_dir(name: str) -> tuple[str, int] | None:
    """Parse a partition's directory name of any form into `(topic, partition)`; None for other names."""
    if name.endswith(OUT_OF_SERVICE) and "." in name:
        name = name[: name.rindex(".")]
    topic, dash, digits = name.rpartition("-")
    if not topic or not dash or not digits.isascii() or not digits.isdigit():
        return None
    return topic, int(digits)


def parse_served_dir(name: str) -> tuple[str, int] | None:
    """Parse the directory name of a partition in service into `(topic, partition)`.

    Return None for every other name, including those of deleted, future and stray replicas, of illegal topics, and of
    invalid partition numbers.
    """
    key = parse_partition_dir(name)
    if key is None or key[1] > MAX_PARTITION or not is_legal_topic(key[0]) or name != partition_dir(*key):
        return None
    return key
