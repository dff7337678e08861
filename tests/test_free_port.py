"""Servers of tests get ports that no connection gets meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from peers.process import PORTS, free_port

LOCAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_a_server_can_listen_at_it() -> None:
    port = free_port()
    assert port in PORTS
    with socket.create_server(("127.0.0.1", port)):
        pass


def test_nobody_else_gets_it_before_the_server_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port()
    monkeypatch.setattr("random.SystemRandom.sample", lambda self, ports, count: [first, *range(20_000, 20_100)])
    assert free_port() != first
    with socket.create_server(("127.0.0.1", first)):
        pass


def test_the_kernel_gives_it_to_no_connection() -> None:
    lowest = int(LOCAL_PORTS.read_text().split()[0]) if LOCAL_PORTS.exists() else 32_768
    assert PORTS.stop <= lowest
