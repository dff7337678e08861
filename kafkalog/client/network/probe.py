"""Ask a listener which protocol it speaks, after a connection to it has failed.

A listener that is spoken to in another protocol than its own mostly just closes the connection, and so does a broker
that stops. A second connection tells the two apart. No credentials are sent on it.
"""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Sequence

from kafkalog.protocol.api_keys import ApiKey
from kafkalog.protocol.errors import ErrorCode

PATIENCE_S = 2.0
"""The time that a listener may take to answer one of the questions."""
_MAX_RESPONSE = 1 << 16
_CORRELATION_ID = 0x6B61


def speaks_plaintext(host: str, port: int) -> bool:
    """Tell whether the listener answers ApiVersions without TLS."""
    try:
        with socket.create_connection((host, port), timeout=PATIENCE_S) as connected:
            return len(_ask(connected, ApiKey.API_VERSIONS, 0, b"")) >= 2
    except (OSError, ValueError):
        return False


def speaks_tls(host: str, port: int) -> bool:
    """Tell whether the listener answers the begin of a TLS handshake, be it with an alert.

    Not if it says that it has no version of TLS in common: kafkalog's brokers say so on listeners without TLS.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection((host, port), timeout=PATIENCE_S) as connected:
            context.wrap_socket(connected, server_hostname=host).close()
            return True
    except ssl.SSLError as error:
        reason = error.reason or ""
        return "ALERT" in reason and "ALERT_PROTOCOL_VERSION" not in reason
    except (OSError, ValueError):
        return False


def tls_alert(host: str, port: int, context: ssl.SSLContext) -> ssl.SSLError | None:
    """Shake hands, and wait for the alert by which the listener refuses the client's certificate.

    In TLS 1.3 the alert comes after the client's handshake is done, and gets lost if the client has sent more.
    """
    try:
        with (
            socket.create_connection((host, port), timeout=PATIENCE_S) as connected,
            context.wrap_socket(connected, server_hostname=host) as secured,
        ):
            secured.recv(1)
    except ssl.SSLError as error:
        return error
    except (OSError, ValueError):
        pass
    return None


def sasl_mechanisms(host: str, port: int, context: ssl.SSLContext | None) -> Sequence[str] | None:
    """Return the SASL mechanisms that the listener offers; None if it wants no SASL, or does not answer.

    Args:
        host: The broker's host.
        port: The listener's port.
        context: That of the connection, where it uses TLS.
    """
    try:
        with socket.create_connection((host, port), timeout=PATIENCE_S) as connected:
            if context is None:
                return _offered(connected)
            with context.wrap_socket(connected, server_hostname=host) as secured:
                return _offered(secured)
    except (OSError, ValueError, struct.error):
        return None


def _offered(connected: socket.socket) -> Sequence[str] | None:
    """Ask for a mechanism without a name, and return those that the answer lists.

    Raises:
        ValueError, struct.error: What came is no answer to that.
    """
    body = _ask(connected, ApiKey.SASL_HANDSHAKE, 1, struct.pack(">h", 0))
    code, count = struct.unpack_from(">hi", body)
    if code != ErrorCode.UNSUPPORTED_SASL_MECHANISM:
        return None
    found, at = [], 6
    for _ in range(count):
        (size,) = struct.unpack_from(">h", body, at)
        if not 0 <= size <= len(body) - at - 2:
            raise ValueError("a mechanism's name is no part of the response")
        found.append(body[at + 2 : at + 2 + size].decode("ascii", "replace"))
        at += 2 + size
    return found


def _ask(connected: socket.socket, api_key: int, version: int, request: bytes) -> bytes:
    """Send a request without a client id, and return the body of its response.

    Raises:
        ValueError: What came is no response to it.
    """
    header = struct.pack(">hhih", api_key, version, _CORRELATION_ID, -1)
    connected.sendall(struct.pack(">i", len(header) + len(request)) + header + request)
    size, correlation_id = struct.unpack(">ii", _receive(connected, 8))
    if correlation_id != _CORRELATION_ID or not 4 <= size <= _MAX_RESPONSE:
        raise ValueError("it is no response")
    return _receive(connected, size - 4)


def _receive(connected: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connected.recv(size - len(data))
        if not part:
            raise ValueError("the connection ended")
        data += part
    return bytes(data)
