"""Errors on the client's side of the wire.

Errors that a broker reports are the classes of `kafkalog.protocol.errors` (`KafkaError`).
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
    "UnresolvedNameError",
    "about",
    "is_retriable",
    "left_out",
]


class ClientError(Exception):
    """Base of all errors that the client itself finds."""

    retriable: ClassVar[bool] = False
    """True if the same call may succeed later."""


class ConfigError(ClientError, ValueError):
    """A property cannot be used; the message names it and says what it may be."""


class ConnectionFailedError(ClientError, ConnectionError):
    """No connection could be made, or one ended before the response came."""

    retriable = True


class UnresolvedNameError(ConnectionFailedError):
    """The name of a host has no address."""


class InvalidResponseError(ConnectionFailedError):
    """The response does not fit the request: a length or a correlation id is wrong, or the bytes do not parse.

    It is not retriable. The peer is probably not a broker, or one side speaks TLS and the other one plaintext.
    """

    retriable = False


class AuthenticationError(ClientError):
    """The broker refused the credentials, the TLS handshake failed, or the broker could not prove who it is."""


class ClientTimeoutError(ClientError, TimeoutError):
    """Nothing came within the time allowed; `__cause__` is the last error, if there was one."""

    retriable = True
    gave_up_at: float | None = None
    """The deadline until which a call was tried again and again; None if it was not."""


class HeldBackError(ClientTimeoutError):
    """The broker does not serve this client within the time allowed, because it is above a quota."""


_UNAUTHORIZED = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def is_retriable(error: BaseException) -> bool:
    """Tell whether the call that raised `error` may succeed later, perhaps once metadata has been fetched again."""
    return isinstance(error, ClientError | KafkaError) and error.retriable


def left_out(what: str) -> KafkaError:
    """Make the error for what a request named, if the broker's answer does not say what became of it."""
    return error_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"the broker's answer leaves out {what}")


def about(code: int, what: str, reason: str | None = None) -> KafkaError:
    """Make the error for a code that a broker has answered; its message has the subject and the broker's `reason`."""
    error = error_for(code)
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and what.startswith("topic "):
        # The broker's own message is about the partitions that it hosts, and says less.
        return type(error)(f"{what} does not exist")
    if code in _UNAUTHORIZED:
        # The broker's reason repeats the error's name.
        reason = None
    return type(error)(f"{what}: {reason or error.message}")
