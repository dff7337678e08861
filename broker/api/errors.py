"""Turn errors into the code and the message that a response has for them."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Self

from broker.log.append.record_errors import code_of
from kafkalog.protocol.errors import ErrorCode, KafkaError
from kafkalog.protocol.primitives import MAX_STRING
from kafkalog.protocol.schema import STRING, Field, Struct
from kafkalog.records.errors import RecordsError

logger = logging.getLogger(__name__)

LONGEST_MESSAGE = 1024
"""The longest error message that is sent to a client, in characters."""


def error_code(error: Exception) -> ErrorCode:
    """Return Kafka's error code for `error`. Log an error of the broker's own and return UNKNOWN_SERVER_ERROR."""
    if isinstance(error, KafkaError):
        return error.code
    if isinstance(error, RecordsError):
        return code_of(error)
    if isinstance(error, OSError):
        logger.error("storage error: %s", error)
        return ErrorCode.KAFKA_STORAGE_ERROR
    logger.error("unexpected error while serving a request", exc_info=error)
    return ErrorCode.UNKNOWN_SERVER_ERROR


def error_message(error: Exception) -> str | None:
    """Return the message of `error` for a client, or None, cut to `LONGEST_MESSAGE`: it may quote the client.

    A string of the protocol has at most 32,767 bytes; a longer one could not be sent at all.
    """
    text: str | None = None
    if isinstance(error, KafkaError):
        # Leave out the code's name, which the response has in another field.
        text = error.message
    elif isinstance(error, RecordsError):
        text = str(error) or None
    return None if text is None else shortened(text)


def shortened(text: str) -> str:
    """Return a message for a client, cut to 1,024 characters."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE - 3]}..."


class ClientGoneError(ConnectionError):
    """The client of a large request has disconnected, so its answer is not needed."""


class Answering:
    """A context manager that puts an error of one entry of a request into its result, so that the others are served.

    `ClientGoneError` is of no entry: it ends the request.

    Args:
        result: gets `error_code`, and `error_message` where it has that field.
    """

    __slots__ = ("_result",)

    def __init__(self, result: Any) -> None:
        self._result = result

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception) or isinstance(error, ClientGoneError):
            return False
        self._result.error_code = error_code(error)
        if hasattr(self._result, "error_message"):
            self._result.error_message = error_message(error)
        return True


def make_encodable(value: Struct, version: int) -> bool:
    """Repair a response that cannot be encoded; return whether anything had to be repaired.

    A string that is too long is cut, and a missing one becomes empty; its entry gets UNKNOWN_SERVER_ERROR if entries
    have errors. Bytes of a request that are not UTF-8 become three bytes each, so even a name that is only repeated may
    be too long.
    """
    is_changed = False
    for field in value.fields:
        if version not in field.versions:
            continue
        present = getattr(value, field.name)
        if field.type is STRING:
            fitting = (
                [_fitting(text, field, version) for text in present]
                if isinstance(present, list)
                else _fitting(present, field, version)
            )
            if fitting != present:
                setattr(value, field.name, fitting)
                is_changed = True
        elif isinstance(field.type, type) and present is not None:
            for entry in present if field.is_array else [present]:
                is_changed |= make_encodable(entry, version)
    if is_changed:
        for field in value.fields:
            if field.name == "error_code" and version in field.versions and not getattr(value, field.name):
                setattr(value, field.name, ErrorCode.UNKNOWN_SERVER_ERROR)
    return is_changed


def _fitting(text: str | None, field: Field, version: int) -> str | None:
    if text is None:
        return None if field.is_array or version in field.nullable else ""
    # Clients cannot send surrogates.
    data = text.encode(errors="replace")
    return text if len(data) <= MAX_STRING else data[:MAX_STRING].decode(errors="ignore")
