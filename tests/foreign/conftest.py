"""Fixtures: the broker under test and the foreign clients.

`KAFKALOG_TEST_BOOTSTRAP=host:port` puts any other broker in its place: run against Apache Kafka, these tests
test themselves.
"""

from __future__ import annotations

import itertools
import os
import socket
from collections.abc import Callable, Iterator

import pytest

from peers import require
from peers.brokers import kafka
from peers.clients.base import ForeignClient
from peers.clients.registry import CLIENTS, LIBRARIES


def client_params(*features: str, skip: tuple[str, ...] = ()) -> list[object]:
    """Return a parameter for each client with all `features`; programs are marked `peer`."""
    return [
        pytest.param(name, marks=() if name in LIBRARIES else (pytest.mark.peer,))
        for name, client in CLIENTS.items()
        if client.features.issuperset(features) and name not in skip
    ]


def client_codec_params(*features: str) -> list[object]:
    """Return a parameter pair (client, codec) for each codec of each client."""
    return [
        pytest.param(name, codec, marks=() if name in LIBRARIES else (pytest.mark.peer,))
        for name, client in CLIENTS.items()
        if client.features.issuperset(features)
        for codec in client.codecs
    ]


@pytest.fixture(scope="session")
def bootstrap(broker_address: str) -> str:
    """ "host:port" of the broker under test."""
    return broker_address


@pytest.fixture(scope="session")
def connected(bootstrap: str) -> Iterator[Callable[[str], ForeignClient]]:
    """Return clients by name, each started once and closed at the end."""
    started: dict[str, ForeignClient] = {}

    def client(name: str) -> ForeignClient:
        if name not in started:
            require(CLIENTS[name].missing())
            started[name] = CLIENTS[name](bootstrap)
        return started[name]

    yield client
    for each in started.values():
        each.close()


@pytest.fixture
def client(request: pytest.FixtureRequest, connected: Callable[[str], ForeignClient]) -> ForeignClient:
    """Return the client that the test's indirect parameter names."""
    return connected(request.param)


@pytest.fixture
def referee(connected: Callable[[str], ForeignClient]) -> ForeignClient:
    """Return librdkafka, to prepare data and to check what another client did."""
    return connected("librdkafka")


@pytest.fixture(scope="session")
def apache_kafka(foreign_programs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return host:port of an Apache Kafka 3.9, the last that knows Fetch 0 to 3, for tests that compare answers."""
    require(kafka.missing(kafka.KAFKA_3))
    directory = tmp_path_factory.mktemp("kafka") / "broker"
    with kafka.ApacheKafka(kafka.KAFKA_3, directory=directory, heap=("-Xmx256M",)) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module", params=["kafkalog", pytest.param("Apache Kafka", marks=pytest.mark.peer)])
def address(processes: None, request: pytest.FixtureRequest) -> str:
    """Return host:port of each broker in turn."""
    found: str = request.getfixturevalue("broker_address" if request.param == "kafkalog" else "apache_kafka")
    return found


@pytest.fixture
def wire(address: str) -> Iterator[socket.socket]:
    """Connect to each broker in turn."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as opened:
        yield opened


_serial = itertools.count()


@pytest.fixture
def topic() -> str:
    """Return a name that no other test uses, in this run or an earlier one with the same broker."""
    return f"foreign-{os.getpid()}-{next(_serial)}"
