"""Tests of a channel to one broker whose sessions end (KIP-368)."""

from __future__ import annotations

import selectors
from collections.abc import Iterator

import pytest

from kafkalog.client.cluster import Cluster
from kafkalog.client.producer.config import ProducerConfig
from kafkalog.client.producer.sender.channels import Channel
from kafkalog.protocol.messages.produce import ProduceRequest
from tests.support.secured.sessions import Sessions, make_due
from tests.support.waiting import wait_until
from tests.support.wire import batch, produce_request

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
        made = Channel(1, config, cluster, selector)
        yield made
        made.close()


def send(channel: Channel) -> None:
    request: ProduceRequest = produce_request("t", {0: batch([b"x"])})
    channel.prepare()
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
