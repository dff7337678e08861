"""Map what is wrong with a client's records to Kafka's errors.

`kafkalog.records` knows no protocol: its errors say what is wrong with bytes. This is the only table from them to
Kafka's codes.
"""

from __future__ import annotations

from kafkalog.protocol.errors import ErrorCode, KafkaError, error_for
from kafkalog.records.errors import (
    CorruptRecordError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)

_CODES: tuple[tuple[type[RecordsError], ErrorCode], ...] = (
    (CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    (UnsupportedCompressionTypeError, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (RecordTooLargeError, ErrorCode.MESSAGE_TOO_LARGE),
    (UnsupportedMagicError, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    (RecordsError, ErrorCode.INVALID_RECORD),
)


def code_of(error: RecordsError) -> ErrorCode:
    """Return Kafka's code for an error of `kafkalog.records`."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def as_protocol_error(error: RecordsError, label: str) -> KafkaError:
    """Return Kafka's error for an error of `kafkalog.records` in the partition called `label`."""
    return error_for(code_of(error), f"{error} in topic partition {label}")
