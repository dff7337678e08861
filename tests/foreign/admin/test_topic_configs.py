"""Test that a topic's configurations have the names, values and checks of Apache Kafka 3.9."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.wire import create_topic, exchange

pytestmark = [pytest.mark.timeout(600), pytest.mark.peer]
TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = range(3)
DEFAULT = 5
"""The source of a value that nobody set; of the others, a line of the peer's server.properties is the source."""
NUMBERS = (-131_073, -131_072, -3, -2, -1, 0, 1, 2, 3, 4, 9, 10, 13, 14, 17, 18, 22, 23, 1 << 31, 1 << 63)
TEXTS = (*map(str, NUMBERS), "0.5", "1.1", "x", "TRUE", "yes", "gzip", "none", "compact", "compact,delete", "compact,x",
         "CreateTime", "*", "0:1,1:2", "0:x", "3.9", "99.0")  # fmt: skip
OWN = {"kafkalog.mirror.source"}
"""Configurations that Apache Kafka does not have."""
Address = tuple[str, int]


@pytest.fixture(scope="module")
def addresses(broker_address: str, apache_kafka: str) -> tuple[Address, Address]:
    """Our broker and Apache Kafka."""
    return split(broker_address), split(apache_kafka)


def split(address: str) -> Address:
    host, _, port = address.rpartition(":")
    return host, int(port)


@pytest.fixture
def wires(addresses: tuple[Address, Address]) -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = addresses
    with socket.create_connection(ours, timeout=20) as one, socket.create_connection(theirs, timeout=20) as other:
        yield one, other


def described(sock: socket.socket, kind: int, name: str) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    deadline = time.monotonic() + 30
    while True:
        result = exchange(sock, DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4).results[0]
        if result.error_code == 0:
            return {config.name: config for config in result.configs}
        assert time.monotonic() < deadline, result.error_message


def altered(sock: socket.socket, kind: int, resource: str, op: int, name: str, value: str | None) -> int:
    config = AlterableConfig(name=name, config_operation=op, value=value)
    request = IncrementalAlterConfigsRequest(
        resources=[AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[config])],
        validate_only=True,
    )
    code: int = exchange(sock, request, 1).responses[0].error_code
    return code


@pytest.fixture
def topic(wires: tuple[socket.socket, socket.socket]) -> str:
    name = f"configs-{uuid.uuid4().hex[:12]}"
    for wire in wires:
        create_topic(wire, name, 1)
    return name


def test_the_same_configurations_are_described(wires: tuple[socket.socket, socket.socket], topic: str) -> None:
    ours, theirs = (described(wire, TOPIC, topic) for wire in wires)
    assert set(ours) == {*theirs, *OWN}
    for name, their in theirs.items():
        our = ours[name]
        assert (our.config_type, our.read_only, our.is_sensitive) == (
            their.config_type, their.read_only, their.is_sensitive,
        ), name  # fmt: skip
        if their.config_source == DEFAULT:
            assert (our.value, our.config_source) == (their.value, DEFAULT), name
            assert [(each.name, each.value) for each in our.synonyms] == [
                (each.name, each.value) for each in their.synonyms
            ], name


def test_the_same_values_are_taken(wires: tuple[socket.socket, socket.socket], topic: str) -> None:
    names = set(described(wires[0], TOPIC, topic)) - OWN
    different = {}
    for name in names:
        for text in TEXTS:
            ours, theirs = (altered(wire, TOPIC, topic, SET, name, text) for wire in wires)
            if ours != theirs:
                different[name, text] = (ours, theirs)
    assert different == {}


@pytest.mark.parametrize("kind", [TOPIC, BROKER])
@pytest.mark.parametrize("op", [SET, DELETE, APPEND])
def test_unknown_names(wires: tuple[socket.socket, socket.socket], topic: str, kind: int, op: int) -> None:
    if kind == BROKER and op == APPEND:
        pytest.skip("Apache Kafka answers UNKNOWN_SERVER_ERROR")
    resource = topic if kind == TOPIC else ""
    value = None if op == DELETE else "1"
    ours, theirs = (altered(wire, kind, resource, op, "no.such.name", value) for wire in wires)
    assert ours == theirs
