"""The one place where errors become Kafka error codes."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Self

from kafkalog.protocol.errors import ErrorCode, KafkaError
from kafkalog.records.errors import (
    CorruptRecordError,
    InvalidRecordError,
    RecordsError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
    UnsupportedMagicError,
)

logger = logging.getLogger("kafkalog.broker.api")

_RECORD_ERRORS: tuple[tuple[type[RecordsError], ErrorCode], ...] = (
    (CorruptRecordError, ErrorCode.CORRUPT_MESSAGE),
    (InvalidRecordError, ErrorCode.INVALID_RECORD),
    (UnsupportedCompressionTypeError, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE),
    (RecordTooLargeError, ErrorCode.MESSAGE_TOO_LARGE),
    (UnsupportedMagicError, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT),
    (RecordsError, ErrorCode.INVALID_RECORD),
)


def error_code(error: Exception) -> ErrorCode:
    """The code a client is told for ``error``; what is not a client's affair is logged and told as unknown."""
    if isinstance(error, KafkaError):
        return error.code
    if isinstance(error, RecordsError):
        return next(code for kind, code in _RECORD_ERRORS if isinstance(error, kind))
    if isinstance(error, OSError):
        logger.error("storage error: %s", error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    logger.error("unexpected error while serving a request", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def error_message(error: Exception) -> str | None:
    """What a client is told in words, if it is."""
    if isinstance(error, KafkaError):
        # Without the code's name, which the response has beside it.
        return error.message
    return str(error) or None if isinstance(error, RecordsError) else None


class Answering:
    """What goes wrong with one entry of a request is told in its result, and the others are served: ``with`` it.

    Args:
        result: gets ``error_code``, and ``error_message`` where it has that field.
    """

    __slots__ = ("_result",)

    def __init__(self, result: Any) -> None:
        self._result = result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._result.error_code = error_code(error)
        if hasattr(self._result, "error_message"):
            self._result.error_message = error_message(error)
        return True
