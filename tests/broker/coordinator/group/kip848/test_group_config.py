"""Tests of single groups' settings: DescribeConfigs, AlterConfigs and IncrementalAlterConfigs of type GROUP."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from broker.config.definition import ConfigError
from broker.config.server import BrokerConfig
from broker.controller.configs import ResourceKind
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.alter_configs import AlterableConfig as WholeConfig
from kafkalog.protocol.messages.alter_configs import AlterConfigsRequest
from kafkalog.protocol.messages.alter_configs import AlterConfigsResource as WholeResource
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.coordinator.group.kip848.support import join
from tests.support.kafkalog_broker import KafkalogBroker
from tests.support.wire import exchange

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SET, DELETE, APPEND = 0, 1, 2


def _describe(wire: Any, group: str) -> dict[str, tuple[str, int]]:
    resource = DescribeConfigsResource(resource_type=ResourceKind.GROUP, resource_name=group, configuration_keys=None)
    (result,) = exchange(wire, DescribeConfigsRequest(resources=[resource]), 4).results
    assert result.error_code == 0, result.error_message
    return {entry.name: (entry.value, entry.config_source) for entry in result.configs}


def _alter(wire: Any, group: str, name: str, value: str | None, op: int = SET) -> Any:
    change = AlterableConfig(name=name, config_operation=op, value=value)
    resource = AlterConfigsResource(resource_type=ResourceKind.GROUP, resource_name=group, configs=[change])
    (result,) = exchange(wire, IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
    return result


def test_a_group_has_settings_of_its_own(broker: KafkalogBroker) -> None:
    group = f"group-{uuid4()}"
    with broker.connect() as wire:
        assert _describe(wire, group) == {SESSION: ("45000", 5), HEARTBEAT: ("5000", 5)}
        assert _alter(wire, group, HEARTBEAT, "9000").error_code == 0
        assert _alter(wire, group, SESSION, "50000").error_code == 0
        assert _describe(wire, group) == {SESSION: ("50000", 8), HEARTBEAT: ("9000", 8)}
        request = join("a", "t")
        request.group_id = group
        exchange(wire, FindCoordinatorRequest(key=group), 3)
        assert exchange(wire, request, 1).heartbeat_interval_ms == 9000
        assert _alter(wire, group, HEARTBEAT, None, DELETE).error_code == 0
        request = join("a", "t")
        request.group_id = group
        assert exchange(wire, request, 1).heartbeat_interval_ms == 5000
        whole = WholeResource(
            resource_type=ResourceKind.GROUP, resource_name=group, configs=[WholeConfig(name=HEARTBEAT, value="6000")]
        )
        assert exchange(wire, AlterConfigsRequest(resources=[whole]), 2).responses[0].error_code == 0
        assert _describe(wire, group) == {SESSION: ("45000", 5), HEARTBEAT: ("6000", 8)}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (SESSION, "1000", f"{SESSION} must be greater than or equals to group.consumer.min.session.timeout.ms"),
        (SESSION, "90000", f"{SESSION} must be less than or equals to group.consumer.max.session.timeout.ms"),
        (HEARTBEAT, "1", f"{HEARTBEAT} must be greater than or equals to group.consumer.min.heartbeat.interval.ms"),
        (HEARTBEAT, "soon", ""),
        ("consumer.unheard.of", "1", "Unknown group config name: consumer.unheard.of"),
    ],
)
def test_settings_that_are_refused(broker: KafkalogBroker, name: str, value: str, message: str) -> None:
    with broker.connect() as wire:
        result = _alter(wire, "g", name, value)
    assert (ErrorCode(result.error_code), message in result.error_message) == (ErrorCode.INVALID_CONFIG, True)


def test_there_are_no_settings_for_all_groups(broker: KafkalogBroker) -> None:
    with broker.connect() as wire:
        assert _alter(wire, "", SESSION, "50000").error_code == ErrorCode.INVALID_REQUEST


def test_settings_of_the_broker_that_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match=r"group\.consumer\.session\.timeout\.ms must be greater than or equals to"):
        BrokerConfig({"group.consumer.session.timeout.ms": "10000"})
