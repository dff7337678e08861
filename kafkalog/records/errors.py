"""Errors about record bytes.

Two questions decide which error is raised: are the bytes what their sender meant (`CorruptRecordError`:
checksum, truncation, lengths that lie), and if so, do they say something a log may hold
(`InvalidRecordError`: counts, offsets, keys). Each class names the Kafka error code that a broker answers
with.
"""

from __future__ import annotations


class RecordsError(ValueError):
    """Base of everything this package raises about bytes it was given."""


class CorruptRecordError(RecordsError):
    """The bytes are damaged or truncated, or a length in them lies (CORRUPT_MESSAGE)."""


class InvalidRecordError(RecordsError):
    """The bytes are whole but their content breaks a rule: counts, offset deltas, keys (INVALID_RECORD)."""


class MissingKeyError(InvalidRecordError):
    """A record has no key where each must have one (INVALID_RECORD)."""


class UnsupportedCompressionTypeError(RecordsError):
    """A codec that this format does not have (UNSUPPORTED_COMPRESSION_TYPE)."""


class RecordTooLargeError(RecordsError):
    """Records would need more memory than the caller allows (MESSAGE_TOO_LARGE)."""


class UnsupportedMagicError(RecordsError):
    """A message format version other than the called function supports (UNSUPPORTED_FOR_MESSAGE_FORMAT)."""
