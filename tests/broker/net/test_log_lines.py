"""Test that peers who need no account cannot fill the log, however often they come."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from broker.net.limits.told import LINES
from tests.broker.net.support import acceptor_of
from tests.broker.replica.in_process import InProcess, with_broker

LISTENER = {"listeners": "PLAINTEXT://127.0.0.1:0"}


def warnings(caplog: pytest.LogCaptureFixture, beginning: str) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.getMessage().startswith(beginning)]


def test_frames_of_impossible_sizes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def work(broker: InProcess) -> None:
        for number in range(2 * LINES):
            wire = await broker.connect()
            wire._writer.write(struct.pack(">i", -1 - number))
            assert await wire.is_closed()
        lines = warnings(caplog, "closing connection from 127.0.0.1")
        assert len(lines) == LINES, lines
        assert "request size -1 is not between 0" in lines[0]

    with_broker(tmp_path, work, LISTENER)


@pytest.mark.parametrize("key", ["max.connections.per.ip", "max.connections"])
def test_connections_beyond_a_limit(tmp_path: Path, caplog: pytest.LogCaptureFixture, key: str) -> None:
    async def work(broker: InProcess) -> None:
        await broker.connect()
        await broker.until(lambda: len(acceptor_of(broker).connections) == 1, "the first is accepted")
        for _ in range(2 * LINES):
            assert await (await broker.connect()).is_closed()
        lines = warnings(caplog, "refusing connection from 127.0.0.1")
        assert len(lines) == LINES, lines

    with_broker(tmp_path, work, {**LISTENER, key: "1"})
