"""Tests of broker loggers as resources of DescribeConfigs and IncrementalAlterConfigs."""

from __future__ import annotations

import logging
import socket

import pytest

from broker.controller.loggers import LEVELS, TRACE, level_name
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_configs import AlterableConfig as ReplacingConfig
from kafkalog.protocol.messages.alter_configs import AlterConfigsRequest
from kafkalog.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from kafkalog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import exchange

BROKER_LOGGER = 8
LOGGER_CONFIG = 6
NAME = "broker.log.recovery.loading"
SET, DELETE, APPEND, SUBTRACT = range(4)


def describe(
    sock: socket.socket, broker: str, keys: list[str] | None = None, version: int = 4
) -> DescribeConfigsResult:
    resource = DescribeConfigsResource(resource_type=BROKER_LOGGER, resource_name=broker, configuration_keys=keys)
    response: DescribeConfigsResponse = exchange(sock, DescribeConfigsRequest(resources=[resource]), version)
    return response.results[0]


def alter(
    sock: socket.socket, *configs: tuple[str, int, str | None], broker: str = "0", validate_only: bool = False
) -> tuple[int, str | None]:
    changes = [AlterableConfig(name=name, config_operation=op, value=value) for name, op, value in configs]
    resource = AlterConfigsResource(resource_type=BROKER_LOGGER, resource_name=broker, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (result,) = exchange(sock, request, 1).responses
    return result.error_code, result.error_message


@pytest.mark.parametrize("version", range(5))
def test_describe(broker: KafkalogBroker, version: int) -> None:
    with broker.connect() as sock:
        result = describe(sock, "0", [NAME, "no.such.logger", "root"], version)
    assert result.error_code == ErrorCode.NONE
    assert [(each.name, each.value) for each in result.configs] == [(NAME, "INFO"), ("root", "WARN")]
    for each in result.configs:
        assert not each.read_only
        assert not each.is_default
        assert not each.is_sensitive
        assert each.synonyms == []
        assert each.config_source == (LOGGER_CONFIG if version else -1)


@pytest.mark.parametrize("name", ["", "1", "00", "first"])
def test_of_another_broker(broker: KafkalogBroker, name: str) -> None:
    with broker.connect() as sock:
        assert describe(sock, name).error_code == ErrorCode.INVALID_REQUEST
        code, message = alter(sock, (NAME, SET, "ERROR"), broker=name)
        assert code == ErrorCode.INVALID_REQUEST
        assert message
        assert describe(sock, "0", [NAME]).configs[0].value == "INFO"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((NAME, APPEND, "ERROR"), ErrorCode.INVALID_REQUEST),
        ((NAME, SUBTRACT, "ERROR"), ErrorCode.INVALID_REQUEST),
        ((NAME, 9, "ERROR"), ErrorCode.INVALID_REQUEST),
        ((NAME, SET, None), ErrorCode.INVALID_REQUEST),
        ((NAME, SET, "error"), ErrorCode.INVALID_CONFIG),
        ((NAME, SET, ""), ErrorCode.INVALID_CONFIG),
        (("broker.log.clean", SET, "ERROR"), ErrorCode.INVALID_CONFIG),
        (("", SET, "ERROR"), ErrorCode.INVALID_CONFIG),
        (("no.such.logger", DELETE, None), ErrorCode.INVALID_CONFIG),
        (("root", DELETE, None), ErrorCode.INVALID_REQUEST),
        (("broker.log.log_manager", DELETE, None), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_is_refused(broker: KafkalogBroker, change: tuple[str, int, str | None], code: ErrorCode) -> None:
    with broker.connect() as sock:
        # Of several changes none is made where one is refused; the last case names a logger twice.
        assert alter(sock, ("broker.log.log_manager", SET, "ERROR"), change)[0] == code
        assert {each.value for each in describe(sock, "0", ["broker.log.log_manager", NAME]).configs} == {"INFO"}


def test_validate_only(broker: KafkalogBroker) -> None:
    with broker.connect() as sock:
        assert alter(sock, (NAME, SET, "ERROR"), validate_only=True) == (ErrorCode.NONE, None)
        assert alter(sock, (NAME, SET, "LOUD"), validate_only=True)[0] == ErrorCode.INVALID_CONFIG
        assert describe(sock, "0", [NAME]).configs[0].value == "INFO"


def test_every_level(broker: KafkalogBroker) -> None:
    with broker.connect() as sock:
        try:
            for level in LEVELS:
                assert alter(sock, (NAME, SET, level)) == (ErrorCode.NONE, None)
                assert describe(sock, "0", [NAME]).configs[0].value == level
        finally:
            alter(sock, (NAME, DELETE, None))


def test_the_level_of_a_folder_holds_for_its_modules(broker: KafkalogBroker) -> None:
    folder, inner, module = "broker.log", "broker.log.recovery", NAME
    beside = "broker.controller.topics"
    with broker.connect() as sock:

        def levels() -> list[str | None]:
            found = {each.name: each.value for each in describe(sock, "0").configs}
            return [found[name] for name in (folder, inner, module, beside)]

        try:
            assert levels() == ["INFO"] * 4
            assert alter(sock, (folder, SET, "WARN")) == (ErrorCode.NONE, None)
            assert levels() == ["WARN", "WARN", "WARN", "INFO"]
            assert alter(sock, (module, SET, "DEBUG")) == (ErrorCode.NONE, None)
            assert levels() == ["WARN", "WARN", "DEBUG", "INFO"]
        finally:
            alter(sock, (folder, DELETE, None), (module, DELETE, None))
        assert levels() == ["INFO"] * 4


def test_levels_are_not_replaced_by_alter_configs(broker: KafkalogBroker) -> None:
    resource = ReplacedResource(
        resource_type=BROKER_LOGGER, resource_name="0", configs=[ReplacingConfig(name=NAME, value="ERROR")]
    )
    with broker.connect() as sock:
        (result,) = exchange(sock, AlterConfigsRequest(resources=[resource]), 2).responses
        assert result.error_code == ErrorCode.INVALID_REQUEST
        assert describe(sock, "0", [NAME]).configs[0].value == "INFO"


def test_names_of_levels() -> None:
    assert [level_name(level) for level in LEVELS.values()] == list(LEVELS)
    assert level_name(logging.INFO + 5) == "INFO"
    assert level_name(logging.CRITICAL + 1) == "FATAL"
    assert level_name(TRACE - 1) == level_name(1) == "TRACE"
