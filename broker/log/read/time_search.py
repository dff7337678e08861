"""The search for the first record at or after a timestamp, for ListOffsets."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from broker.log.segment.batch_scan import headers
from broker.log.segment.segment import Segment
from kafkalog.protocol.errors import CorruptMessageError
from kafkalog.records.any_format import decode_any
from kafkalog.records.batch import CODEC_MASK, MAGIC, BatchHeader, records_section
from kafkalog.records.compression import DEFAULT_MAX_SIZE
from kafkalog.records.errors import CorruptRecordError, RecordsError
from kafkalog.records.varint import int64, read_varint, read_varlong

SMALL_RECORDS = 1000
"""An uncompressed batch of up to this number of records is read in less than a millisecond."""


class TimestampOffset(NamedTuple):
    """Describe a record: its timestamp (-1 when not asked for), offset, and leader epoch (-1 when unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int


class Candidate(NamedTuple):
    """A batch that may hold the first record at or after both `timestamp` and `start_offset`."""

    header: BatchHeader
    batch: bytes
    timestamp: int
    start_offset: int
    partition: str
    """The name of the partition, for errors."""

    @property
    def is_small(self) -> bool:
        """Return whether `find` takes little time: it decompresses nothing, and reads few records."""
        header = self.header
        return header.attributes & CODEC_MASK == 0 and (header.magic < MAGIC or header.records_count <= SMALL_RECORDS)

    def find(self) -> TimestampOffset | None:
        """Return the record; None if it is not in this batch. Can run on any thread.

        Raises:
            CorruptMessageError: the batch is damaged.
        """
        try:
            return first_with_timestamp(self.header, self.batch, self.timestamp, self.start_offset)
        except RecordsError as error:
            raise CorruptMessageError(f"{self.partition}: {error}") from error


def candidates(segment: Segment, timestamp: int, start_offset: int, partition: str) -> Iterator[Candidate]:
    """Yield the batches of `segment` that may hold the first record at or after `timestamp` and `start_offset`.

    The time index gives an offset before which no record is that late, and the offset index a position near it. From
    there the search walks over batch headers. `partition` is the name for the errors of candidates.

    Raises:
        CorruptRecordError: the log does not read as batches there.
        OSError: the log cannot be read.
    """
    offset = segment.time_index.lookup(timestamp)[1]
    position = segment.offset_index.lookup(max(offset, start_offset))[1]
    file = segment.file
    fd = file.fd
    for at, header in headers(fd, position, segment.size):
        if header.max_timestamp >= timestamp and header.last_offset >= start_offset:
            batch = os.pread(fd, header.size, at)
            if len(batch) < header.size:
                raise CorruptRecordError(f"batch at position {at} is cut off")
            yield Candidate(header, batch, timestamp, start_offset, partition)


def first_with_timestamp(
    header: BatchHeader, batch: bytes, timestamp: int, start_offset: int
) -> TimestampOffset | None:
    """Return the first record in `batch` at or after both `timestamp` and `start_offset`; None if none is."""
    if header.magic < MAGIC:
        return _first_in_message(header, batch, timestamp, start_offset)
    epoch = header.partition_leader_epoch
    append_time = header.max_timestamp if header.is_log_append_time else None
    if append_time is not None and header.records_count == header.last_offset_delta + 1:
        return TimestampOffset(append_time, max(header.base_offset, start_offset), epoch)
    # Read only the needed fields of each record: a batch may hold many thousands.
    section, at, end = records_section(batch, 0, header, DEFAULT_MAX_SIZE)
    base, first = header.base_timestamp, start_offset - header.base_offset
    for _ in range(header.records_count):
        length, body = read_varint(section, at, end)
        at = body + length
        if not body < at <= end:
            raise CorruptRecordError(f"a record of {length} bytes in a batch at offset {header.base_offset}")
        # Skip the attributes, which are one byte.
        timestamp_delta, body = read_varlong(section, body + 1, at)
        found = append_time if append_time is not None else int64(base + timestamp_delta)
        if append_time is not None or found >= timestamp:
            offset_delta, _ = read_varint(section, body, at)
            if offset_delta >= first:
                return TimestampOffset(found, header.base_offset + offset_delta, epoch)
    return None


def _first_in_message(header: BatchHeader, batch: bytes, timestamp: int, start_offset: int) -> TimestampOffset | None:
    """Do the work of `first_with_timestamp` for a message of format v0, which has no timestamp, or v1."""
    for record in decode_any(batch, check_crc=False)[1]:
        if record.timestamp >= timestamp and record.offset >= start_offset:
            return TimestampOffset(record.timestamp, record.offset, header.partition_leader_epoch)
    return None
