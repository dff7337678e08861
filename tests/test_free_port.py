"""Servers of tests get ports that no connection gets meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path

from peers.process import PORTS, free_port

LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_server_can_listen_at_it() -> None:
    port = free_port()
    assert port in PORTS
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_the_kernel_gives_it_to_no_connection() -> None:
    lowest = int(LOCAL_PORTS.read_text().split()[0]) if LOCAL_PORTS.exists() else 32_768
    assert PORTS.stop <= lowest
