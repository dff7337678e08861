"""Changes of the settings of all brokers."""

from __future__ import annotations

import socket

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.wire import exchange

BROKER = 4

SET = 0


def alter_all_brokers(sock: socket.socket, name: str, value: str) -> None:
    config = AlterableConfig(name=name, config_operation=SET, value=value)
    resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=[config])
    response = exchange(sock, IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert response.responses[0].error_code == ErrorCode.NONE
