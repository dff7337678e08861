"""Tests of requests about configurations: resources named twice, many of them, and errors that depend on the kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from broker.metadata.local import FILE_NAME
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages import alter_configs, incremental_alter_configs
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import create_topic, exchange

TOPIC, BROKER, GROUP = 2, 4, 32
ONCE = "Each resource must appear at most once."
NO_DEFAULT = "Default topic resources are not allowed."
SESSION_TIMEOUT = "consumer.session.timeout.ms"


def incremental(resources: list[tuple[int, str, str, str]]) -> tuple[Any, int]:
    made = [
        incremental_alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[incremental_alter_configs.AlterableConfig(name=key, config_operation=0, value=value)],
        )
        for kind, name, key, value in resources
    ]
    return incremental_alter_configs.IncrementalAlterConfigsRequest(resources=made), 1


def whole(resources: list[tuple[int, str, str, str]]) -> tuple[Any, int]:
    made = [
        alter_configs.AlterConfigsResource(
            resource_type=kind,
            resource_name=name,
            configs=[alter_configs.AlterableConfig(name=key, value=value)],
        )
        for kind, name, key, value in resources
    ]
    return alter_configs.AlterConfigsRequest(resources=made), 2


def described(sock: Any, kind: int, *names: str, keys: list[str] | None = None) -> list[dict[str, str]]:
    """The values of each resource, in the order of the answer."""
    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys) for name in names
    ]
    results = exchange(sock, DescribeConfigsRequest(resources=resources), 4).results
    return [{config.name: config.value for config in result.configs} for result in results]


@pytest.mark.parametrize("made", [incremental, whole], ids=["incremental", "whole"])
def test_a_resource_that_is_altered_twice_is_altered_by_neither(wire: Any, topic: str, made: Any) -> None:
    create_topic(wire, f"{topic}-other")
    request = made(
        [
            (TOPIC, topic, "retention.ms", "1000000"),
            (TOPIC, f"{topic}-other", "retention.ms", "2000000"),
            (TOPIC, topic, "retention.bytes", "3000000"),
        ]
    )
    results = exchange(wire, *request).responses
    assert [(result.error_code, result.error_message) for result in results] == [
        (ErrorCode.INVALID_REQUEST, ONCE),
        (ErrorCode.NONE, None),
        (ErrorCode.INVALID_REQUEST, ONCE),
    ]
    first, other = described(wire, TOPIC, topic, f"{topic}-other")
    assert (first["retention.ms"], first["retention.bytes"]) == ("604800000", "-1")
    assert other["retention.ms"] == "2000000"


def test_all_resources_of_a_request_are_altered_in_one_commit(start_broker: Callable[..., KafkalogBroker]) -> None:
    broker = start_broker()

    def revision() -> int:
        return int(json.loads((broker.log_dir / FILE_NAME).read_text())["revision"])

    groups = [f"g{number}" for number in range(500)]
    with broker.connect() as sock:
        create_topic(sock, "t", 1)
        before = revision()
        request = incremental(
            [(GROUP, name, SESSION_TIMEOUT, "50000") for name in groups]
            + [
                (TOPIC, "t", "retention.ms", "1000000"),
                (TOPIC, "unknown", "retention.ms", "1000000"),
                (BROKER, "0", "log.cleaner.threads", "2"),
                (GROUP, "bad", SESSION_TIMEOUT, "x"),
            ]
        )
        codes = [result.error_code for result in exchange(sock, *request).responses]
        assert codes[:500] == [ErrorCode.NONE] * 500
        assert codes[500:] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.NONE,
            ErrorCode.INVALID_CONFIG,
        ]
        assert revision() == before + 1
        assert {values[SESSION_TIMEOUT] for values in described(sock, GROUP, *groups)} == {"50000"}
        assert described(sock, TOPIC, "t")[0]["retention.ms"] == "1000000"
        assert described(sock, BROKER, "0")[0]["log.cleaner.threads"] == "2"
        assert described(sock, GROUP, "bad")[0][SESSION_TIMEOUT] == "45000"


def test_a_resource_that_is_asked_for_twice_is_described_once(wire: Any, topic: str) -> None:
    (once,) = described(wire, TOPIC, *[topic] * 1000)
    assert once["retention.ms"] == "604800000"
    keys = [DescribeConfigsResource(resource_type=TOPIC, resource_name=topic, configuration_keys=[key])
            for key in ("retention.ms", "retention.bytes", "no.such")]  # fmt: skip
    (result,) = exchange(wire, DescribeConfigsRequest(resources=keys), 4).results
    assert {config.name for config in result.configs} == {"retention.ms", "retention.bytes"}


@pytest.mark.parametrize("made", [incremental, whole], ids=["incremental", "whole"])
def test_a_value_that_does_not_fit_is_another_error_for_brokers_than_for_topics(
    wire: Any, topic: str, made: Any
) -> None:
    for key, value in (
        ("log.retention.ms", "x"),
        ("log.cleaner.threads", "50"),
        ("max.connections.per.ip", "-1"),
        ("leader.replication.throttled.rate", "-5"),
    ):
        (result,) = exchange(wire, *made([(BROKER, "0", key, value)])).responses
        assert result.error_code == ErrorCode.INVALID_REQUEST, key
        assert result.error_message
    (result,) = exchange(wire, *made([(BROKER, "", "min.insync.replicas", "0")])).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    (result,) = exchange(wire, *made([(TOPIC, topic, "retention.ms", "x")])).responses
    assert result.error_code == ErrorCode.INVALID_CONFIG


def test_names_that_no_topic_can_have(wire: Any) -> None:
    for made in (incremental, whole):
        (result,) = exchange(wire, *made([(TOPIC, "", "retention.ms", "1")])).responses
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, NO_DEFAULT)
    named = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name) for name in ("", "a/b", "x" * 250, "none")
    ]
    codes = [result.error_code for result in exchange(wire, DescribeConfigsRequest(resources=named), 4).results]
    assert codes == [ErrorCode.INVALID_TOPIC_EXCEPTION] * 3 + [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_default_that_is_none_is_no_synonym(wire: Any) -> None:
    asked = DescribeConfigsResource(
        resource_type=BROKER, resource_name="0", configuration_keys=["log.retention.ms", "log.retention.hours"]
    )
    (result,) = exchange(wire, DescribeConfigsRequest(resources=[asked], include_synonyms=True), 4).results
    found = {config.name: config for config in result.configs}
    assert (found["log.retention.ms"].value, found["log.retention.ms"].config_source) == (None, 5)
    assert found["log.retention.ms"].synonyms == []
    hours = [(synonym.name, synonym.value, synonym.source) for synonym in found["log.retention.hours"].synonyms]
    assert hours == [("log.retention.hours", "168", 5)]
