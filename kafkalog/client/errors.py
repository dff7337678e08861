"""What can go wrong on the client's side of the wire.

Errors that a broker reports are the classes of ``kafkalog.protocol.errors`` (``KafkaError``); these are the rest.
"""

from __future__ import annotations

from typing import ClassVar

from kafkalog.protocol.errors import ErrorCode, KafkaError, error_for

__all__ = [
    "AuthenticationError",
    "ClientError",
    "ClientTimeoutError",
    "ConfigError",
    "ConnectionFailedError",
    "InvalidResponseError",
    "KafkaError",
    "about",
    "is_retriable",
]


class ClientError(Exception):
    """Base of everything that the client itself finds wrong."""

    retriable: ClassVar[bool] = False
    """Whether the same call may succeed later."""


class ConfigError(ClientError, ValueError):
    """A property that cannot be used; the message names it and says what it may be."""


class ConnectionFailedError(ClientError, ConnectionError):
    """No connection could be made, or one ended before the response came."""

    retriable = True


class InvalidResponseError(ConnectionFailedError):
    """What came back is no answer to what was asked: a length or a correlation id lies, or the bytes do not parse.

    Not retriable: the peer is probably no broker, or speaks TLS where plaintext was configured, or the reverse.
    """

    retriable = False


class AuthenticationError(ClientError):
    """The broker refused the credentials, the TLS handshake failed, or the broker could not prove who it is."""


class ClientTimeoutError(ClientError, TimeoutError):
    """Nothing came within the time allowed; ``__cause__`` is the last error, where one was seen."""

    retriable = True


def is_retriable(error: BaseException) -> bool:
    """Whether the call that raised ``error`` may succeed later, perhaps after metadata has been fetched anew."""
    return isinstance(error, ClientError | KafkaError) and error.retriable


def about(code: int, what: str, reason: str | None = None) -> KafkaError:
    """The error of a code that a broker has answered, its message about ``what`` and with the broker's ``reason``."""
    error = error_for(code)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and what.startswith("topic "):
        # Brokers have a sentence about the partitions that they host, which says less.
        return type(error)(f"{what} does not exist")
    return type(error)(f"{what}: {reason or error.message}")
