"""Tests of a channel to one broker: its sessions end (KIP-368), or it does not let the client in."""

from __future__ import annotations

import selectors
import threading
from collections.abc import Iterator

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.sender.channels import Channel
from kafkalog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kafkalog.protocol.messages.metadata import MetadataRequest
from kafkalog.protocol.messages.produce import ProduceRequest
from tests.support.scripted import ScriptedBroker, api_versions, metadata
from tests.support.secured.sessions import Sessions, make_due
from tests.support.waiting import wait_until
from tests.support.wire import batch, produce_request

DEADLINE_S = 60.0
LOGIN = ["handshake", "authenticate"]


@pytest.fixture
def server() -> Iterator[Sessions]:
    with Sessions(0, 3_600_000) as running:
        yield running


@pytest.fixture
def channel(server: Sessions) -> Iterator[Channel]:
    config = ProducerConfig.from_dict(
        {
            "bootstrap.servers": server.address,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.username": "alice",
            "sasl.password": "secret",
        }
    )
    with Cluster(config.client) as cluster, selectors.DefaultSelector() as selector:
        made = Channel(1, config, cluster, selector, lambda: None)
        yield made
        made.close()


def send(channel: Channel) -> None:
    request: ProduceRequest = produce_request("t", {0: batch([b"x"])})
    wait_until(channel.prepare, "there is a connection")
    assert channel.send(request, [], 0, answered=True, patience=60)


def receive(channel: Channel) -> None:
    wait_until(channel.has_response, "the response is there")
    assert channel.receive() is not None


def test_a_session_is_renewed_when_the_requests_in_flight_are_answered(server: Sessions, channel: Channel) -> None:
    send(channel)
    connection = channel._connection
    assert connection is not None
    assert channel.free_at() < float("inf")
    make_due(connection)
    assert channel.free_at() == float("inf"), "nothing more is sent until the response is there"
    receive(channel)
    assert channel.free_at() < float("inf")
    send(channel)
    receive(channel)
    assert channel._connection is connection
    # The first login is that of the connection for metadata.
    assert server.order == [*LOGIN, *LOGIN, "produce", *LOGIN, "produce"]


def test_a_connection_is_opened_in_the_background() -> None:
    let_in, woken = threading.Event(), threading.Event()

    def greet(request: ApiVersionsRequest) -> ApiVersionsResponse:
        # The first connection is that for metadata.
        if broker.seen[ApiVersionsRequest] > 1:
            assert let_in.wait(DEADLINE_S)
        return api_versions()

    broker = ScriptedBroker({ApiVersionsRequest: greet})
    broker.handlers[MetadataRequest] = lambda _: metadata({1: broker}, {})
    with broker:
        config = ProducerConfig.from_dict({"bootstrap.servers": broker.address})
        with Cluster(config.client) as cluster, selectors.DefaultSelector() as selector:
            channel = Channel(1, config, cluster, selector, woken.set)
            assert not channel.prepare()
            wait_until(lambda: broker.seen[ApiVersionsRequest] == 2, "the broker is asked to let the client in")
            assert not channel.prepare()
            assert channel.free_at() == float("inf")
            let_in.set()
            assert woken.wait(DEADLINE_S)
            assert channel.free_at() < float("inf")
            assert channel.prepare()
            assert channel.connected
            channel.close()
