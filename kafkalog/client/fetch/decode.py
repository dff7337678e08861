"""Decode fetched bytes to a consumer's records, without aborted records and transaction markers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from kafkalog.client.config import ClientConfig
from kafkalog.client.fetch.fetch_request import FetchedRecords
from kafkalog.client.types import READ_COMMITTED, ConsumerRecord, TopicPartition
from kafkalog.records.any_format import decode_any, iter_any_headers, timestamp_type
from kafkalog.records.batch import MAGIC, BatchHeader, decode_batch, records_section, verify_crc
from kafkalog.records.compression import DEFAULT_MAX_SIZE
from kafkalog.records.control import ControlRecordType, parse_control_type
from kafkalog.records.errors import RecordTooLargeError
from kafkalog.records.varint import int64

_INT64_RANGE = 1 << 64
_INT64_END = 1 << 63


@contextmanager
def naming_bound() -> Iterator[None]:
    """Name the property in the error of a batch that expands too far.

    Raises:
        RecordTooLargeError: It does.
    """
    try:
        yield
    except RecordTooLargeError as error:
        raise RecordTooLargeError(f"{error}; raise max.batch.bytes, if there is memory for it") from None


def decode_records(
    fetched: FetchedRecords, tp: TopicPartition, offset: int, config: ClientConfig
) -> Iterator[tuple[list[ConsumerRecord], int]]:
    """Decode the records from `offset` on, batch by batch, each with the offset after the batch.

    Raises:
        RecordsError: A batch cannot be decoded.
    """
    for records, after, _ in decode_batches(fetched, tp, offset, config):
        yield records, after


def decode_batches(
    fetched: FetchedRecords, tp: TopicPartition, offset: int, config: ClientConfig
) -> Iterator[tuple[list[ConsumerRecord], int, int]]:
    """Decode as `decode_records` does, and add each batch's leader epoch (-1 before format v2).

    For read_committed, a producer's transactional batches are aborted from the first offset that the broker names up to
    the producer's next ABORT marker (KIP-98).
    """
    committed_only = config.isolation_level == READ_COMMITTED
    to_come = sorted(fetched.aborted, key=lambda each: each[1], reverse=True)
    aborting: set[int] = set()
    for pos, header in iter_any_headers(fetched.records):
        if header.last_offset < offset:
            continue
        if committed_only:
            while to_come and to_come[-1][1] <= header.last_offset:
                aborting.add(to_come.pop()[0])
        records: list[ConsumerRecord] = []
        if header.magic < MAGIC:
            records = _read_old(fetched.records, pos, tp, config)
            records = [record for record in records if record.offset >= offset]
        elif header.is_control:
            if header.producer_id in aborting:
                _, markers = decode_batch(fetched.records, pos, check_crc=config.check_crcs)
                if any(parse_control_type(marker.key) is ControlRecordType.ABORT for marker in markers):
                    aborting.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in aborting):
            with naming_bound():
                records = read_batch(fetched.records, pos, header, tp, config.check_crcs, config.max_batch_bytes)
            if header.base_offset < offset:
                records = [record for record in records if record.offset >= offset]
        yield records, header.next_offset, header.partition_leader_epoch


def _read_old(buf: memoryview, pos: int, tp: TopicPartition, config: ClientConfig) -> list[ConsumerRecord]:
    """Decode a message of format v0 or v1, which may contain several.

    Records of v0 have -1 as timestamp and as timestamp type.
    """
    with naming_bound():
        header, records = decode_any(buf, pos, check_crc=config.check_crcs, max_size=config.max_batch_bytes)
    kind = timestamp_type(header)
    return [ConsumerRecord(*tp, each.offset, each.timestamp, kind, each.key, each.value) for each in records]


def read_batch(
    buf: memoryview,
    pos: int,
    header: BatchHeader,
    tp: TopicPartition,
    check_crc: bool = True,
    max_size: int = DEFAULT_MAX_SIZE,
) -> list[ConsumerRecord]:
    """Decode the records of the whole batch at `pos`, which may expand to `max_size` bytes.

    One loop without a call for each field reads well-formed batches, at three times the speed of `decode_batch`. Other
    batches go to `decode_batch`, whose error says what is wrong with them.

    Raises:
        RecordsError: The batch cannot be decoded.
    """
    if check_crc:
        verify_crc(buf, pos, header)
    section, at, end = records_section(buf, pos, header, max_size)
    data = section if type(section) is bytes and not at else bytes(section[at:end])
    try:
        found = _read_records(data, end - at, header, tp)
    except (IndexError, UnicodeDecodeError):
        found = None
    if found is not None:
        return found
    timestamp_type = int(header.is_log_append_time)
    _, records = decode_batch(buf, pos, check_crc=False, max_size=max_size)
    return [
        ConsumerRecord(*tp, each.offset, each.timestamp, timestamp_type, each.key, each.value, each.headers)
        for each in records
    ]


def _read_records(data: bytes, end: int, header: BatchHeader, tp: TopicPartition) -> list[ConsumerRecord] | None:
    """Decode the records in `data`; return None where one contradicts its length or the header.

    Varints of one or two bytes are read in place. No field has a negative length, and each record ends where its length
    says, so no field reaches beyond its record.

    Raises:
        IndexError: A record reaches beyond the data, or a varint or a header is malformed.
        UnicodeDecodeError: A header's key is not UTF-8.
    """
    topic, partition = tp
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.is_log_append_time else None
    timestamp_type = 0 if append_time is None else 1
    found: list[ConsumerRecord] = []
    make, record_type = tuple.__new__, ConsumerRecord
    at, previous = 0, -1
    for _ in range(header.records_count):
        # Lengths and deltas are zigzag-encoded: n as 2n, or as -2n - 1 where it is negative.
        if (size := data[at]) < 0x80:
            at += 1
        else:
            size, at = _uvarint(data, at, 5)
        stop = at + (size >> 1)
        at += 1  # attributes
        if (stamp := data[at]) < 0x80:
            at += 1
        elif (second := data[at + 1]) < 0x80:
            stamp += (second << 7) - 0x80
            at += 2
        else:
            stamp, at = _uvarint(data, at, 10)
        if (delta := data[at]) < 0x80:
            at += 1
        elif (second := data[at + 1]) < 0x80:
            delta += (second << 7) - 0x80
            at += 2
        else:
            delta, at = _uvarint(data, at, 5)
        key = value = None
        if (length := data[at]) < 0x80:
            at += 1
        else:
            length, at = _uvarint(data, at, 5)
        if not length & 1:
            key = data[at : (at := at + (length >> 1))]
        elif length != 1:
            return None
        if (length := data[at]) < 0x80:
            at += 1
        elif (second := data[at + 1]) < 0x80:
            length += (second << 7) - 0x80
            at += 2
        else:
            length, at = _uvarint(data, at, 5)
        if not length & 1:
            value = data[at : (at := at + (length >> 1))]
        elif length != 1:
            return None
        if data[at]:
            headers, at = _headers(data, at)
        else:
            headers = ()
            at += 1
        if size & 1 or delta & 1 or at != stop or not previous < (delta := delta >> 1) or stamp >= _INT64_RANGE:
            return None
        previous = delta
        timestamp = base_timestamp + ((stamp >> 1) ^ -(stamp & 1)) if append_time is None else append_time
        if not -_INT64_END <= timestamp < _INT64_END:
            timestamp = int64(timestamp)
        found.append(
            make(record_type, (topic, partition, base_offset + delta, timestamp, timestamp_type, key, value, headers))
        )
    if at != end or previous > header.last_offset_delta or header.records_count < 0:
        return None
    return found


def _headers(data: bytes, at: int) -> tuple[tuple[tuple[str, bytes | None], ...], int]:
    count, at = _uvarint(data, at, 5)
    if count & 1:
        raise IndexError
    headers = []
    for _ in range(count >> 1):
        length, at = _uvarint(data, at, 5)
        if length & 1:
            raise IndexError
        name = data[at : (at := at + (length >> 1))].decode()
        length, at = _uvarint(data, at, 5)
        value = None
        if not length & 1:
            value = data[at : (at := at + (length >> 1))]
        elif length != 1:
            raise IndexError
        headers.append((name, value))
    return tuple(headers), at


def _uvarint(data: bytes, at: int, most: int) -> tuple[int, int]:
    """Read an unsigned varint of at most `most` bytes; return it and the position after it."""
    value = 0
    for shift in range(0, 7 * most, 7):
        byte = data[at]
        at += 1
        if byte < 0x80:
            return value | byte << shift, at
        value |= (byte & 0x7F) << shift
    raise IndexError
