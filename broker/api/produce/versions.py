"""The record formats and codecs that each version of Produce allows, and the cost of records. Pure."""

from __future__ import annotations

from broker.log.append.validation import TARGET_CODECS
from broker.log.log_config import LogConfig
from kafkalog.records.batch import HEADER_SIZE, MAGIC
from kafkalog.records.compression import Codec
from kafkalog.records.errors import InvalidRecordError, RecordsError, UnsupportedCompressionTypeError
from kafkalog.records.peek import NO_MAGIC, RecordsView

ZSTD_SINCE = 7
"""Producers that know zstd speak this version (KIP-110)."""
BATCH_SINCE = 3
"""From this version on records are exactly one batch of message format v2."""
LEADER_SINCE = 10
"""Versions whose responses name the partition's leader if it is not this broker (KIP-951)."""
LARGE_BATCH = 16 * 1024
"""Batches are compressed on a worker from this many bytes on; they are always decompressed on a worker."""


def is_old(view: RecordsView, config: LogConfig) -> bool:
    """Return whether records are for `produce_legacy`: no batch of v2, or for a topic that stores an older format."""
    return view.magic < MAGIC or config.message_format < MAGIC


def changes_codec(version: int, view: RecordsView, config: LogConfig) -> bool:
    """Return whether recompressing a batch of v2 for its topic takes long."""
    if not (view.codec or view.size >= LARGE_BATCH):
        return False
    if version < ZSTD_SINCE and (view.codec == Codec.ZSTD or config.compression_type == "zstd"):
        # Checks depend on the client's codec, and need the batch as it came.
        return False
    return view.size >= HEADER_SIZE and view.codec != TARGET_CODECS[config.compression_type]


def check_version(version: int, view: RecordsView) -> None:
    """Check that a produce request of that version may contain the records.

    Raises:
        RecordsError: there are no records, or the version may not contain their format or their codec.
    """
    if version < BATCH_SINCE:
        # This holds for any format, and for empty records: Kafka never restricted what clients sent in these versions.
        return
    if view.magic == NO_MAGIC:
        raise RecordsError("Produce requests must have exactly one record batch for each partition")
    if view.magic < MAGIC:
        raise InvalidRecordError(
            f"Produce requests with version {version} are only allowed to contain record batches with magic version 2"
        )
    if version < ZSTD_SINCE and view.codec == Codec.ZSTD:
        raise UnsupportedCompressionTypeError(
            f"Produce requests before version {ZSTD_SINCE} may not carry batches compressed with zstd"
        )
