"""Free ports of this machine, for servers that start later."""

from __future__ import annotations

import random
import socket
from contextlib import suppress
from pathlib import Path

FIRST = 10_000
"""Ports below this one are those that servers usually have."""
_CONNECTIONS_FROM = 32_768
_LINUX = Path("/proc/sys/net/ipv4/ip_local_port_range")


def free_ports(count: int, host: str = "127.0.0.1", chance: random.Random | None = None) -> list[int]:
    """Return ports on which nothing listens now, in no order.

    They lie below the range from which the kernel gives ports to connections. A port of that range, such as the kernel
    chooses for a server that asks for port 0, may belong to any connection when the server starts. For a minute no
    other call returns them, in whatever process, while servers can listen at them.

    Raises:
        OSError: the host has no such address, or too few ports are free.
    """
    ports = list(range(FIRST, max(_connections_from(), FIRST + 1000)))
    (chance or random.SystemRandom()).shuffle(ports)
    found: list[int] = []
    error: OSError | None = None
    for port in ports:
        if len(found) == count:
            break
        try:
            _reserve(host, port)
            found.append(port)
        except OSError as refused:
            error = refused
    if len(found) < count:
        why = "" if error is None else f": {error}"
        raise OSError(f"{count} ports were asked for, and {len(found)} of {len(ports)} are free{why}")
    return found


def _reserve(host: str, port: int) -> None:
    """Leave a connection in the state TIME_WAIT at a port.

    Servers set SO_REUSEADDR, so that such connections do not keep them from the port. This function binds without it,
    and finds the port taken.
    """
    with socket.socket() as server:
        server.bind((host, port))
        # The connection inherits this. The kernel lets servers have the port only if both sides have set it.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.listen(1)
        with socket.create_connection(server.getsockname()):
            accepted, _ = server.accept()
            # The side that closes first keeps the state.
            accepted.close()


def _connections_from() -> int:
    """Return the first port that connections get."""
    with suppress(OSError, ValueError, IndexError):
        return int(_LINUX.read_text().split()[0])
    return _CONNECTIONS_FROM
