"""Check fetched batches before a follower appends any of them.

A follower appends whole batches unchanged. Adjacent batches share one write, because a write for each batch of 16 KB
costs more than the copy itself.
"""

from __future__ import annotations

from typing import NamedTuple

from broker.log.append.record_errors import as_protocol_error
from kafkalog.protocol.errors import KafkaError, OffsetOutOfRangeError
from kafkalog.records.any_format import iter_any_headers, verify_any_crc
from kafkalog.records.batch import MAGIC, BatchHeader
from kafkalog.records.errors import RecordsError

PlacedBatch = tuple[int, BatchHeader]
"""The position of a batch among the fetched bytes, and its header."""


class FetchedBatches(NamedTuple):
    """The batches that a follower may append."""

    runs: list[list[PlacedBatch]]
    """The batches in order. Those of a run have the same leader epoch and format. A control batch ends its run."""
    error: KafkaError | None
    """The error of the next batch, which cannot be appended; None if all may be. Batches left out are no error."""


def fetched_batches(records: memoryview, end_offset: int, leader_epoch: int | None, label: str) -> FetchedBatches:
    """Check the whole batches in `records`, up to the first one that cannot be appended; leave out an incomplete one.

    Args:
        end_offset: where the log ends.
        leader_epoch: the epoch in which the leader is followed. The first batch of a later epoch and all after it are
            left out: the leader's log may have been truncated meanwhile (KAFKA-18723).
        label: the partition's name, for messages.
    """
    runs: list[list[PlacedBatch]] = []
    kind: tuple[int, bool] | None = None
    try:
        for position, header in iter_any_headers(records):
            if leader_epoch is not None and header.partition_leader_epoch > leader_epoch:
                break
            verify_any_crc(records, position, header)
            if header.base_offset < end_offset:
                message = (
                    f"Unexpected offset in append to {label}: {header.base_offset} is less than the next offset "
                    f"{end_offset}"
                )
                return FetchedBatches(runs, OffsetOutOfRangeError(message))
            end_offset = header.last_offset + 1
            before, kind = kind, (header.partition_leader_epoch, header.magic < MAGIC)
            if kind == before:
                runs[-1].append((position, header))
            else:
                runs.append([(position, header)])
            if header.is_control:
                kind = None
    except RecordsError as error:
        failure = as_protocol_error(error, label)
        failure.__cause__ = error
        return FetchedBatches(runs, failure)
    return FetchedBatches(runs, None)


def first_header(records: memoryview, label: str) -> BatchHeader | None:
    """Return the header of the first whole batch in `records`, or None if there is none.

    Args:
        label: the partition's name, for messages.

    Raises:
        CorruptMessageError, UnsupportedForMessageFormatError: the header is damaged.
    """
    try:
        return next((header for _, header in iter_any_headers(records)), None)
    except RecordsError as error:
        # A follower delays one partition for a KafkaError, and all partitions of the leader for any other error.
        raise as_protocol_error(error, label) from error
