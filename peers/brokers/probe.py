"""Send a broker small requests, in bytes written by hand.

No code of the product takes part, so the result holds even if our protocol code is wrong. Requests (all integers
big-endian; KIP-35, KIP-4):

| bytes | ApiVersions v0 | Metadata v1, all topics |
|--|--|--|
| int32 | length of what follows | the same |
| int16 | api key 18 | api key 3 |
| int16 | version 0 | version 1 |
| int32 | correlation id | the same |
| int16 + n | client id | the same |
| int32 | – | -1: every topic; 0: none |
"""

from __future__ import annotations

import socket
import struct
import time

API_VERSIONS = 18
METADATA = 3
_CLIENT_ID = b"probe"
_ANSWER_LIMIT = 64 << 20


def _ask(sock: socket.socket, api_key: int, version: int, correlation: int, body: bytes) -> bytes:
    head = struct.pack(">hhih", api_key, version, correlation, len(_CLIENT_ID)) + _CLIENT_ID
    sock.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    (size,) = struct.unpack(">i", _read(sock, 4))
    if not 4 <= size <= _ANSWER_LIMIT:
        raise ConnectionError(f"answer of {size} bytes")
    answer = _read(sock, size)
    if struct.unpack_from(">i", answer)[0] != correlation:
        raise ConnectionError("answer to another request")
    return answer[4:]


def _read(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = sock.recv(size - len(parts))
        if not part:
            raise ConnectionError("closed")
        parts += part
    return bytes(parts)


def api_versions(address: str, timeout_s: float = 1.0) -> dict[int, tuple[int, int]]:
    """Return the announced API versions: key to (lowest, highest).

    Raises:
        OSError: No response comes.
    """
    with connect(address, timeout_s) as sock:
        answer = _ask(sock, API_VERSIONS, 0, 1, b"")
    error, count = struct.unpack_from(">hi", answer)
    if error:
        raise ConnectionError(f"error code {error}")
    return {key: (low, high) for key, low, high in struct.iter_unpack(">hhh", answer[6 : 6 + 6 * count])}


def brokers(address: str, timeout_s: float = 1.0) -> int:
    """Return the number of brokers in Metadata v1.

    Raises:
        OSError: No response comes.
    """
    with connect(address, timeout_s) as sock:
        answer = _ask(sock, METADATA, 1, 2, struct.pack(">i", -1))
    count: int = struct.unpack_from(">i", answer)[0]
    return count


def controller(address: str, timeout_s: float = 1.0) -> int:
    """Return the controller's id in Metadata v1; -1 if the broker knows of none.

    The answer has the brokers (int32, string, int32, string that may be null), then the controller (int32).

    Raises:
        OSError: No response comes.
    """
    with connect(address, timeout_s) as sock:
        answer = _ask(sock, METADATA, 1, 3, struct.pack(">i", 0))
    (count,) = struct.unpack_from(">i", answer)
    at = 4
    for _ in range(count):
        (length,) = struct.unpack_from(">h", answer, at + 4)
        at += 4 + 2 + length + 4
        (length,) = struct.unpack_from(">h", answer, at)
        at += 2 + max(0, length)
    found: int = struct.unpack_from(">i", answer, at)[0]
    return found


def answers(address: str, timeout_s: float = 1.0) -> bool:
    """Tell whether the broker announces its versions and lists at least one broker (itself)."""
    try:
        return bool(api_versions(address, timeout_s)) and brokers(address, timeout_s) > 0
    except OSError:
        return False


def wait_for_answer(address: str, deadline_s: float, poll_s: float = 0.002) -> float:
    """Wait until both requests are answered; return time.perf_counter().

    Raises:
        TimeoutError: They are not answered by the deadline.
    """
    end = time.monotonic() + deadline_s
    while time.monotonic() < end:
        if answers(address):
            return time.perf_counter()
        time.sleep(poll_s)
    raise TimeoutError(f"{address} did not answer in {deadline_s:.0f} s")


def connect(address: str, timeout_s: float) -> socket.socket:
    """Connect to `host:port`."""
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout_s)
