"""Tests of what is reported where no broker answers."""

from __future__ import annotations

import logging
import re
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientError, ClientTimeoutError, ConnectionFailedError
from kafkalog.client.network import outage
from kafkalog.protocol.messages.metadata import MetadataRequest
from peers.process import free_port
from tests.support.scripted import ScriptedBroker, Silence
from tests.support.waiting import wait_until

BUSY_S = 60.0
"""Longer than any of these tests takes."""


def config_for(*brokers: ScriptedBroker | str) -> ClientConfig:
    servers = ",".join(broker if isinstance(broker, str) else broker.address for broker in brokers)
    return ClientConfig.from_dict({"bootstrap.servers": servers, "retry.backoff.ms": "1"})


def closed_port() -> str:
    return f"127.0.0.1:{free_port()}"


def test_an_outage_is_reported_once_and_where_the_caller_says(caplog: pytest.LogCaptureFixture) -> None:
    first, second, other = closed_port(), closed_port(), closed_port()
    reported: list[Exception] = []
    with Cluster(config_for(first, second), on_outage=reported.append) as told, Cluster(config_for(other)) as logged:
        for cluster in (told, logged):
            for _ in range(2):
                with pytest.raises(ConnectionFailedError):
                    cluster.metadata(once=True)
    (error,) = reported
    assert first in str(error)
    assert second in str(error)
    (line,) = (record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)
    assert line.startswith("no broker answers; trying again: ")
    assert other in line


def silent_for(cluster: Cluster, seconds: float) -> None:
    with pytest.raises(ClientTimeoutError):
        cluster.metadata(refresh=True, deadline=time.monotonic() + seconds)


def test_slow_brokers_are_no_outage_until_that_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A producer's thread waits for a quarter of a second, so that it keeps its batches' time-outs."""
    reported: list[Exception] = []
    servers = ScriptedBroker({MetadataRequest: lambda request: Silence()}), closed_port()
    with servers[0] as server, Cluster(config_for(*servers), on_outage=reported.append) as cluster:
        for silence_s, told in ((BUSY_S, 0), (0.0, 1), (0.0, 1)):
            monkeypatch.setattr(outage, "SILENCE_S", silence_s)
            silent_for(cluster, 0.05)
            assert len(reported) == told
        server.hang_up()
    assert re.search(r"did not answer \w+ in time", str(reported[0]))


@pytest.mark.parametrize("heard", ["an answer", "nothing", "nothing for long"])
def test_silence_lasts_until_something_is_heard(heard: str) -> None:
    """Times are passed in: `began` compares them with the present."""
    reported: list[Exception] = []
    state = outage.Outage(reported.append)
    now = time.monotonic()
    state.began(ClientTimeoutError("first"), now - outage.SILENCE_S + BUSY_S)
    if heard == "an answer":
        state.heard()
    if heard == "nothing for long":
        state._silent_until = now - 2 * BUSY_S
    state._silent_since = None if state._silent_since is None else now - 2 * outage.SILENCE_S
    state.began(ClientTimeoutError("second"), now)
    assert [str(error) for error in reported] == (["second"] if heard == "nothing" else [])


def test_closing_is_no_outage(caplog: pytest.LogCaptureFixture) -> None:
    """The request for metadata that `close` ends is not told as one that no broker answers."""
    over = threading.Event()

    def wait(request: Any) -> None:
        over.wait(BUSY_S)

    with ScriptedBroker({MetadataRequest: wait}) as server, ThreadPoolExecutor(1) as pool:
        with Cluster(config_for(server)) as cluster:
            asked = pool.submit(cluster.metadata)
            wait_until(lambda: server.seen[MetadataRequest] == 1, "the request is under way")
        error = asked.exception(BUSY_S / 2)
        over.set()
    assert isinstance(error, ClientError | RuntimeError)
    assert "no broker answers" not in caplog.text
