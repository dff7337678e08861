"""The errors of a connection, of the peer and of the caller.

A `RemoteProtocolError` ends the connection, because nothing that follows on it can be trusted. A `LocalProtocolError`
is a bug of the caller and does not change the connection.

Two errors of other modules pass through. `UnsupportedVersionError` means that the two sides share no version of an
API, and `EncodeError` that a value does not fit its field. Neither sends anything, and both leave a ready connection
ready.
"""

from __future__ import annotations

from kafkalog.protocol.errors import KafkaError
from kafkalog.protocol.primitives import ProtocolError


class RemoteProtocolError(ProtocolError):
    """The peer violated the protocol; the message names the peer."""


class ConnectionEndedError(RemoteProtocolError):
    """The peer closed the connection."""


class NegotiationFailedError(RemoteProtocolError):
    """The peer answered ApiVersions with an error.

    `reported` is that error.
    """

    def __init__(self, reported: KafkaError) -> None:
        super().__init__(str(reported))
        self.reported = reported


class AuthenticationFailedError(RemoteProtocolError):
    """The peer refused the mechanism or the credentials, or could not prove who it is."""


class LocalProtocolError(RuntimeError):
    """The caller called a method that the connection's state does not allow."""
