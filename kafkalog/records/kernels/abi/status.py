"""Statuses that kernels return (compiled code raises nothing), and the errors that they stand for."""

from __future__ import annotations

from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    MissingKeyError,
    RecordsError,
    UnsupportedMagicError,
)

OK = 0
TRUNCATED = 1
BAD_VARINT = 2
BAD_LENGTH = 3
RECORD_SIZE = 4
TOO_FEW = 5
TOO_MANY = 6
BAD_DELTA = 7
NO_KEY = 8
BAD_HEADERS = 9
NO_HEADER_KEY = 10
BAD_BATCH = 11
BAD_MAGIC = 12
OFFSETS_BACK = 13
BAD_COUNT = 14

_ERRORS: dict[int, tuple[type[RecordsError], str]] = {
    TRUNCATED: (CorruptRecordError, "a field runs past the end of its record"),
    BAD_VARINT: (CorruptRecordError, "a varint has too many bits"),
    BAD_LENGTH: (CorruptRecordError, "a length is negative"),
    RECORD_SIZE: (CorruptRecordError, "the record's length is not that of its fields"),
    TOO_FEW: (InvalidRecordError, "the batch ends before as many records as it states"),
    TOO_MANY: (InvalidRecordError, "bytes follow the last record"),
    BAD_DELTA: (InvalidRecordError, "the offset delta is out of order"),
    NO_KEY: (MissingKeyError, "a compacted topic's record has no key"),
    BAD_HEADERS: (InvalidRecordError, "the count of headers does not fit the record"),
    NO_HEADER_KEY: (InvalidRecordError, "a header has no key"),
    BAD_BATCH: (CorruptRecordError, "the batch length is less than a header's"),
    BAD_MAGIC: (UnsupportedMagicError, "another message format than record batch v2"),
    OFFSETS_BACK: (InvalidRecordError, "offsets go back"),
    BAD_COUNT: (InvalidRecordError, "the batch states more records than its bytes can hold"),
}


def error_for(status: int, index: int, what: str = "record") -> RecordsError:
    """Return the error that `status` stands for; `index` is that of the record (or batch)."""
    kind, text = _ERRORS[status]
    return kind(f"{what} {index}: {text}")
