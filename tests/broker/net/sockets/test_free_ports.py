"""Test that free ports are such that no connection takes them before a server does."""

from __future__ import annotations

import random
import socket
from collections.abc import MutableSequence
from typing import Any

import pytest

from broker.net.sockets import free_ports as module
from broker.net.sockets.free_ports import FIRST, free_ports


def test_servers_can_have_all_of_them() -> None:
    found = free_ports(20)
    assert len(set(found)) == 20
    for port in found:
        socket.create_server(("127.0.0.1", port)).close()


def test_they_are_no_ports_of_connections() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        lowest = min(socket.create_connection(server.getsockname()).getsockname()[1] for _ in range(50))
    assert FIRST <= min(free_ports(50)) <= max(free_ports(50)) < lowest


def test_one_that_another_call_has_returned_is_passed_over() -> None:
    seen: set[int] = set()
    for _ in range(3):
        found = free_ports(5, chance=random.Random(7))
        assert not seen & set(found), "a server that is about to start would find it taken"
        seen |= set(found)
    for port in seen:
        socket.create_server(("127.0.0.1", port)).close()


def test_one_that_is_taken_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", free_ports(1)[0])) as server:
        taken = server.getsockname()[1]

        class Chance(random.Random):
            def shuffle(self, x: MutableSequence[Any]) -> None:
                x.remove(taken)
                x.insert(0, taken)

        assert free_ports(1, chance=Chance()) != [taken]


def test_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_connections_from", lambda: FIRST)
    with pytest.raises(OSError, match="1001 ports were asked for"):
        free_ports(1001)
