"""Peers that speak another protocol than the listener: how to recognise them, and what they are answered.

A client for TLS at a listener without it, or the reverse, is the most common mistake with listeners. Without an answer
in its own protocol the client would only see that the connection was closed.
"""

from __future__ import annotations

_METHODS = (b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC", b"PRI ")
_TLS_HANDSHAKE = b"\x16\x03"
_CLIENT_HELLO = 1
_TEXT = b"This port speaks Kafka's protocol, and serves no HTTP.\n"

TLS_ALERT = bytes((0x15, 3, 1, 0, 2, 2, 70))
"""A fatal alert of TLS, protocol_version: TLS clients name it, and some clients of Kafka tell by it that a port speaks
TLS."""
SMALLEST_OF_TLS = 0x16030000
"""The smallest size of a frame that the first bytes of TLS are read as."""
HEAD_BYTES = 9
"""The first bytes of a connection that tell a client of TLS for certain."""


def is_http(first: bytes) -> bool:
    """Return whether the first four bytes of a connection are a request of HTTP."""
    return first[:4] in _METHODS


def http_answer() -> bytes:
    """Return a response that says what the port is."""
    head = f"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {len(_TEXT)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + _TEXT


def is_tls(first: bytes) -> bool:
    """Return whether a connection begins with a ClientHello; four bytes are enough to tell it from a usual frame."""
    if not first.startswith(_TLS_HANDSHAKE) or first[2] > 4:
        return False
    if len(first) < HEAD_BYTES:
        return True
    # A frame that is as long as 369 MB may be allowed. A record of TLS has its length again in what it holds.
    record, held = int.from_bytes(first[3:5]), int.from_bytes(first[6:9])
    return first[5] == _CLIENT_HELLO and record <= held + 4


def what_it_is(first: bytes) -> tuple[str, bytes]:
    """Return what the first bytes of a connection to a listener without TLS say of the peer, and its answer.

    Both are empty if they say nothing.
    """
    if len(first) >= 4 and is_tls(first):
        text = "set security.protocol=PLAINTEXT in the client, or connect to the port of a listener with TLS"
        return f"; it looks like a TLS handshake: this listener has no TLS; {text}", TLS_ALERT
    if is_http(first):
        text = "; it looks like HTTP: this listener speaks Kafka's protocol; point the client at a Kafka library"
        return text, http_answer()
    return "", b""
