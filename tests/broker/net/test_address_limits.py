"""Test how many connections one address may have."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from broker.config.definition import ConfigError
from broker.config.listeners import parse_connection_overrides
from tests.broker.net.support import acceptor_of
from tests.broker.replica.in_process import InProcess, with_broker

KEY = "max.connections.per.ip.overrides"


def test_an_address_may_have_another_number_than_the_rest(tmp_path: Path) -> None:
    async def work(broker: InProcess) -> None:
        acceptor = acceptor_of(broker)
        assert acceptor._limits.of("10.0.0.1") == 0
        for _ in range(2):
            await broker.connect()
        await broker.until(lambda: len(acceptor.connections) == 2, "both are accepted")
        assert await (await broker.connect()).is_closed()

    with_broker(
        tmp_path, work, {"listeners": "PLAINTEXT://127.0.0.1:0", "max.connections.per.ip": "0", KEY: "127.0.0.1:2"}
    )


def test_a_host_may_have_another_number_than_the_rest(tmp_path: Path) -> None:
    address = str(socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)[0][4][0])

    async def work(broker: InProcess) -> None:
        limits = acceptor_of(broker)._limits
        await broker.until(lambda: limits.of(address) == 3, "the address of the host is known")
        assert limits.of("10.0.0.1") == 9

    settings = {"max.connections.per.ip": "9", KEY: "localhost:3"}
    with_broker(tmp_path, work, {"listeners": "PLAINTEXT://127.0.0.1:0", **settings})


def test_a_name_without_an_address_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(broker: InProcess) -> None:
        limits = acceptor_of(broker)._limits
        assert limits.of("10.0.0.7") == 5
        await broker.until(lambda: "no address of nowhere.invalid was found" in caplog.text, "it is named")
        assert limits.of("10.0.0.8") == 7

    settings = {"max.connections.per.ip": "7", KEY: "nowhere.invalid:3, 10.0.0.7:5"}
    with_broker(tmp_path, work, {"listeners": "PLAINTEXT://127.0.0.1:0", **settings})


def test_what_is_read() -> None:
    assert parse_connection_overrides(KEY, "") == {}
    assert parse_connection_overrides(KEY, "a.example:1 , ::1:20,10.0.0.1:0") == {
        "a.example": 1,
        "::1": 20,
        "10.0.0.1": 0,
    }


@pytest.mark.parametrize(
    "text", ["10.0.0.1", "10.0.0.1:", ":5", "10.0.0.1:-1", "10.0.0.1:x", "a b:1", "a:1,,b:2", "a:2147483648"]
)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="expected host:count"):
        parse_connection_overrides(KEY, text)
