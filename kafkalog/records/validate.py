"""Check the bytes of one produced batch: lengths, checksum, header, codec, every record.

The order is that of Kafka's `LogValidator`: the header's lengths and magic, the checksum, the header's counts and
producer fields, the codec, then every record. Of a record the lengths and varints must be within their bounds, the
offset deltas be 0..n-1, header keys be present and, for compacted topics, the key. A compressed batch is decompressed
for the check, within a bound. The batch is not changed, and nothing is kept.

The loop over the records is a kernel (`kernels`), so that a batch costs microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkalog.records.batch import (
    MIN_RECORD_SIZE,
    NO_PRODUCER_ID,
    BatchHeader,
    read_header,
    records_section,
    verify_crc,
)
from kafkalog.records.compression import DEFAULT_MAX_SIZE, Buffer
from kafkalog.records.errors import InvalidRecordError
from kafkalog.records.kernels import loader
from kafkalog.records.kernels.abi.status import OK, error_for
from kafkalog.records.kernels.plain.reading import Fields
from kafkalog.records.varint import int64


class ValidatedBatch(NamedTuple):
    """A batch that passed, and the smallest and largest timestamp (ms) that its records state.

    A producer may have written another max_timestamp into the header; Kafka's leader corrects it
    (`batch.set_create_time`). With LogAppendTime both are the header's.
    """

    header: BatchHeader
    min_timestamp: int
    max_timestamp: int


def check_batch(
    buf: Buffer,
    pos: int = 0,
    *,
    require_keys: bool = False,
    max_decompressed: int = DEFAULT_MAX_SIZE,
    allow_control: bool = False,
) -> ValidatedBatch:
    """Check the batch at `pos` as a leader does; bytes after it are ignored.

    `require_keys` is for compacted topics; `allow_control` for what the broker itself writes (markers), which producers
    may not.

    Raises:
        CorruptRecordError: The batch is cut off or damaged.
        InvalidRecordError: A producer may not write such a batch or such a record.
        UnsupportedMagicError: The batch is of another format.
        UnsupportedCompressionTypeError: The codec is unknown.
        RecordTooLargeError: The records expand to more than `max_decompressed` bytes.
    """
    header = read_header(buf, pos)
    verify_crc(buf, pos, header)
    _check_header(header, allow_control)
    section, start, end = records_section(buf, pos, header, max_decompressed)
    count = header.records_count
    if count * MIN_RECORD_SIZE > end - start:
        raise InvalidRecordError(f"{count} records cannot be in {end - start} bytes")
    base = header.base_timestamp
    status, index, least, most = loader.validate_records(section, start, end, count, base, require_keys)
    if status != OK:
        raise error_for(status, index)
    if header.is_log_append_time:
        return ValidatedBatch(header, header.max_timestamp, header.max_timestamp)
    return ValidatedBatch(header, least, most)


def validate_batch(
    buf: Buffer,
    pos: int = 0,
    *,
    require_keys: bool = False,
    max_decompressed: int = DEFAULT_MAX_SIZE,
    allow_control: bool = False,
) -> BatchHeader:
    """Check the batch as `check_batch` does, and return its header; for callers that need no timestamps."""
    return check_batch(
        buf,
        pos,
        require_keys=require_keys,
        max_decompressed=max_decompressed,
        allow_control=allow_control,
    ).header


def keys_and_timestamps(buf: Buffer, pos: int = 0) -> Iterator[tuple[bool, int]]:
    """Yield, for each record of a batch that `check_batch` has passed, whether it has a key, and its timestamp."""
    return ((key_size >= 0, timestamp) for key_size, _, timestamp in sizes_and_timestamps(buf, pos))


def sizes_and_timestamps(buf: Buffer, pos: int = 0) -> Iterator[tuple[int, int, int]]:
    """Yield, for each record of a batch that `check_batch` has passed, size of key and value, and its timestamp.

    The size of null is -1. A walk in plain Python, some microseconds a record: for batches that are refused.
    """
    header = read_header(buf, pos)
    section, at, end = records_section(buf, pos, header, DEFAULT_MAX_SIZE)
    for _ in range(header.records_count):
        record = Fields(section, at, end)
        at = record.next
        timestamp = (
            header.max_timestamp if header.is_log_append_time else int64(header.base_timestamp + record.timestamp_delta)
        )
        yield record.key[1] - record.key[0], record.value[1] - record.value[0], timestamp


def _check_header(header: BatchHeader, allow_control: bool) -> None:
    """Check the header by itself: counts, control flag, producer fields."""
    count = header.records_count
    if count <= 0:
        raise InvalidRecordError(f"batch of {count} records")
    if header.last_offset_delta != count - 1:
        raise InvalidRecordError(f"last offset delta {header.last_offset_delta} in a batch of {count} records")
    if allow_control:
        return
    if header.is_control:
        raise InvalidRecordError("control batch from a producer")
    if header.producer_id > NO_PRODUCER_ID and header.base_sequence < 0:
        raise InvalidRecordError(f"producer id {header.producer_id} with base sequence {header.base_sequence}")
