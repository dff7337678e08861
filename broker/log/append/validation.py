"""Checks of a produced batch before a leader assigns offsets, and the changes that the leader makes to the batch.

This is for batches of message format v2 that are stored as v2; `legacy` handles the other formats. The order of the
checks is Apache Kafka's: the magic; exactly one batch; its size; the base offset, which is 0; the CRC; the header,
where a client's control batch is refused; every record (by the compiled kernel); that a transactional batch belongs to
a transaction that is open here; timestamps. Then the topic's codec and timestamp type are applied. Everything is
decided before the log changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct

from broker.log.append.record_errors import as_protocol_error
from broker.log.append.rejection import RecordRules, RejectedRecordsError, RejectedTimestampsError
from broker.log.log_config import LOG_APPEND_TIME, LogConfig
from kafkalog.protocol.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    InvalidTxnStateError,
    MessageTooLargeError,
    RecordListTooLargeError,
)
from kafkalog.records import errors as records_errors
from kafkalog.records.batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_APPEND_TIME_FLAG,
    LOG_OVERHEAD,
    NO_TIMESTAMP,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    pack_header,
    read_header,
    records_section,
    set_create_time,
    set_log_append_time,
)
from kafkalog.records.compression import DEFAULT_MAX_SIZE, Codec, compress, refuse_dependent_blocks
from kafkalog.records.validate import check_batch, keys_and_timestamps

_PREFIX = Struct(">qiib")


class Origin(IntEnum):
    """Say who appends: a client's produce request, a coordinator of this broker, or replication."""

    CLIENT = 0
    COORDINATOR = 1
    REPLICATION = 2


TARGET_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def prepare(
    records: memoryview,
    config: LogConfig,
    now_ms: int,
    origin: Origin,
    label: str,
    *,
    in_transaction: bool = False,
    most: int = DEFAULT_MAX_SIZE,
) -> tuple[memoryview, BatchHeader]:
    """Check a produced batch and apply the topic's timestamp type and codec to it.

    Args:
        records: the batch. It must be writable, because timestamps are set in place.
        label: the partition's name, for messages.
        in_transaction: the caller knows that the producer has a transaction open that covers this partition.
        most: the most bytes to decompress.

    Returns:
        The batch to append and its header. The batch is `records`, or a new one if it was recompressed.

    Raises:
        KafkaError: the batch is refused; the subclass is the error that the client gets.
        RecordTooLargeError: it has more than `most` bytes, but not more than any batch may have.
    """
    size = len(records)
    if size < HEADER_SIZE:
        _refuse_short(records, label)
    base_offset, length, _, magic = _PREFIX.unpack_from(records)
    if magic != 2:
        _refuse_magic(magic, label)
    if LOG_OVERHEAD + length != size:
        refuse_length(LOG_OVERHEAD + length, size, label)
    if size > config.max_message_bytes or size > config.segment_bytes:
        check_size(size, config, label)
    from_client = origin is Origin.CLIENT
    if from_client and base_offset != 0:
        raise InvalidRecordError(
            f"The baseOffset of the record batch in the append to {label} should be 0, but it is {base_offset}"
        )
    try:
        header, earliest, latest = check_batch(
            records,
            require_keys=config.requires_keys and from_client,
            max_decompressed=most,
            allow_control=not from_client,
        )
        if header.attributes & CODEC_MASK == Codec.LZ4:
            refuse_dependent_blocks(Codec.LZ4, records[HEADER_SIZE:])
    except records_errors.MissingKeyError:
        raise _without_keys(records, RecordRules.of(config, now_ms, label, from_client=from_client)) from None
    except records_errors.RecordsError as error:
        if most < DEFAULT_MAX_SIZE and isinstance(error, records_errors.RecordTooLargeError):
            raise
        raise as_protocol_error(error, label) from error
    attributes = header.attributes
    if attributes & TRANSACTIONAL_FLAG:
        check_transaction(header, origin, label, in_transaction=in_transaction)
    is_append_time = bool(attributes & LOG_APPEND_TIME_FLAG)
    if is_append_time:
        rules = RecordRules.of(config, now_ms, label, from_client=from_client)
        if not rules.takes_timestamp(latest, is_append_time=True):
            raise RejectedTimestampsError(rules)
    if config.message_timestamp_type == LOG_APPEND_TIME:
        records, header = _to_codec(records, header, config, label)
        set_log_append_time(records, 0, now_ms)
        return records, header._replace(max_timestamp=now_ms, attributes=header.attributes | LOG_APPEND_TIME_FLAG)
    before, after = config.message_timestamp_before_max_ms, config.message_timestamp_after_max_ms
    if now_ms - earliest > before or latest - now_ms > after:
        rules = RecordRules.of(config, now_ms, label, from_client=from_client)
        if not rules.takes_all_between(earliest, latest):
            rejection = rules.rejection(keys_and_timestamps(records))
            if rejection is not None:
                raise rejection
    latest = max(latest, NO_TIMESTAMP)
    if latest != header.max_timestamp or is_append_time:
        # As in Kafka, a batch that claims timestamps of a broker keeps the one that it states as its largest.
        set_create_time(records, 0, latest)
        header = header._replace(max_timestamp=latest, attributes=attributes & ~LOG_APPEND_TIME_FLAG)
    return _to_codec(records, header, config, label)


def check_size(size: int, config: LogConfig, label: str) -> None:
    """Check that a batch is not too large for the topic.

    Raises:
        MessageTooLargeError: it is larger than `max.message.bytes`.
        RecordListTooLargeError: it is larger than a segment.
    """
    if size > config.max_message_bytes:
        raise MessageTooLargeError(
            f"The record batch size in the append to {label} is {size} bytes which exceeds the maximum configured "
            f"value of {config.max_message_bytes}."
        )
    if size > config.segment_bytes:
        raise RecordListTooLargeError(
            f"Message batch size is {size} bytes in append to partition {label}, which exceeds the maximum configured "
            f"segment size of {config.segment_bytes}."
        )


def _refuse_short(records: memoryview, label: str) -> None:
    raise InvalidRecordError(f"{len(records)} bytes sent to {label} are no record batch")


def _refuse_magic(magic: int, label: str) -> None:
    raise CorruptMessageError(f"Unknown magic {magic} in the record batch sent to {label}")


def refuse_length(stated: int, size: int, label: str) -> None:
    """Raise the error of records that are not exactly one batch.

    Raises:
        CorruptMessageError: the first batch states a length that is impossible.
        InvalidRecordError: the first batch ends before the records do.
    """
    if stated < HEADER_SIZE or stated > size:
        raise CorruptMessageError(f"A record batch sent to {label} states {stated} of {size} bytes")
    raise InvalidRecordError(
        f"The records sent to {label} must be exactly one batch, but one of {stated} bytes came in {size} bytes"
    )


def refuse_append_time(label: str) -> None:
    """Raise the error of records that claim to have timestamps of the broker.

    Raises:
        InvalidTimestampError: a producer may not claim that.
    """
    raise InvalidTimestampError(
        f"Invalid timestamp type in the batch sent to {label}: a producer should not set it to LogAppendTime"
    )


def _without_keys(records: memoryview, rules: RecordRules) -> Exception:
    """Return the error of a batch with records that lack a key.

    It may be another error: a later record may be damaged, or have a wrong timestamp.
    """
    try:
        header, earliest, latest = check_batch(records)
    except records_errors.RecordsError as error:
        return as_protocol_error(error, rules.label)
    is_append_time = header.is_log_append_time
    if rules.takes_all_between(earliest, latest, is_append_time=is_append_time):
        return RejectedRecordsError(rules)
    rejection = rules.rejection(keys_and_timestamps(records), is_append_time=is_append_time)
    return rejection or RejectedRecordsError(rules)


def _to_codec(
    records: memoryview, header: BatchHeader, config: LogConfig, label: str
) -> tuple[memoryview, BatchHeader]:
    """Return the batch in the topic's codec: the same batch, unless `compression.type` names another codec."""
    if config.compression_type == "producer" or header.attributes & CONTROL_FLAG:
        return records, header
    target = TARGET_CODECS[config.compression_type]
    if target == header.codec:
        return records, header
    records = recompress(records, header, target, config.compression_level)
    check_size(len(records), config, label)
    return records, read_header(records)


def recompress(records: memoryview, header: BatchHeader, target: Codec, level: int | None = None) -> memoryview:
    """Recompress a batch; keep its records byte for byte.

    The header is kept too, except the fields that depend on the codec.
    """
    section, start, end = records_section(records, 0, header, DEFAULT_MAX_SIZE)
    body = compress(target, memoryview(section)[start:end], level)
    attributes = header.attributes & ~CODEC_MASK | target
    return memoryview(pack_header(header._replace(attributes=attributes), body))


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """Hold a batch that `prepare` has checked, and its header, for a later append.

    The append still checks whether the batch's transaction, if it has one, covers the partition.
    """

    records: memoryview
    header: BatchHeader


def prepare_ahead(
    records: memoryview,
    config: LogConfig,
    now_ms: int,
    origin: Origin,
    label: str,
    *,
    most: int = DEFAULT_MAX_SIZE,
) -> CheckedBatch:
    """Do the work of `prepare`, on any thread. It changes nothing but `records`.

    Raises:
        KafkaError: the batch is refused.
        RecordTooLargeError: it has more than `most` bytes, but not more than any batch may have.
    """
    return CheckedBatch(*prepare(records, config, now_ms, origin, label, in_transaction=True, most=most))


def check_transaction(header: BatchHeader, origin: Origin, label: str, *, in_transaction: bool) -> None:
    """Check that the transaction of a client's transactional batch covers the partition.

    Raises:
        InvalidTxnStateError: it does not.
    """
    if header.attributes & TRANSACTIONAL_FLAG and origin is Origin.CLIENT and not in_transaction:
        raise InvalidTxnStateError(f"Record was not part of an ongoing transaction in topic partition {label}")
