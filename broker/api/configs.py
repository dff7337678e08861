"""DescribeConfigs (key 32), AlterConfigs (key 33) and IncrementalAlterConfigs (key 44)."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from broker.api.context import Broker, Request
from broker.api.errors import error_code, error_message
from broker.controller.configs import Alteration, Described, Op
from broker.controller.loggers import LoggerController
from kafkalog.protocol.errors import InvalidRequestError
from kafkalog.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from kafkalog.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from kafkalog.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse as IncrementalResourceResponse,
)
from kafkalog.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


class ResourceType(IntEnum):
    """Resources that have configurations here."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    GROUP = 32


DEFAULT_CONFIG = 5
"""The source of a value that nobody set."""
LOGGER_CONFIG = 6
"""The source of a logger's level."""


def handle_describe_configs(request: Request) -> None:
    message: DescribeConfigsRequest = request.message
    results = []
    for resource in message.resources:
        result = DescribeConfigsResult(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            if resource.resource_type == ResourceType.BROKER_LOGGER:
                levels = LoggerController(request.broker.broker_id).describe(resource.resource_name)
                configs = [_logger(name, level) for name, level in levels.items()]
            else:
                entries = _describe(request.broker, resource.resource_type, resource.resource_name)
                configs = [_entry(entry, request.version, message) for entry in entries]
        except Exception as error:
            result.error_code = error_code(error)
            result.error_message = error_message(error)
        else:
            if resource.configuration_keys is not None:
                found = {config.name: config for config in configs}
                configs = [found[key] for key in dict.fromkeys(resource.configuration_keys) if key in found]
            result.configs = configs
        results.append(result)
    request.reply(DescribeConfigsResponse(results=results))


def _describe(broker: Broker, kind: int, name: str) -> list[Described]:
    if kind == ResourceType.TOPIC:
        return broker.configs.describe_topic(name)
    if kind == ResourceType.BROKER:
        return broker.configs.describe_broker(name)
    if kind == ResourceType.GROUP:
        return broker.configs.describe_group(name)
    raise InvalidRequestError(f"Unsupported resource type: {kind}")


def _entry(entry: Described, version: int, message: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.key.name,
        value=entry.value,
        read_only=entry.read_only,
        is_default=version == 0 and entry.source == DEFAULT_CONFIG,
        config_source=entry.source,
        is_sensitive=entry.key.sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in entry.synonyms
        ]
        if message.include_synonyms
        else [],
        config_type=entry.key.type,
        documentation=entry.key.doc if message.include_documentation else None,
    )


def _logger(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(name=name, value=level, read_only=False, config_source=LOGGER_CONFIG)


async def handle_alter_configs(request: Request) -> None:
    message: AlterConfigsRequest = request.message
    configs = request.broker.configs
    results = []
    for resource in message.resources:
        result = AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            replace = _by_type(
                resource.resource_type, configs.replace_topic, configs.replace_broker, configs.replace_group
            )
            values = {config.name: config.value for config in resource.configs}
            await replace(resource.resource_name, values, validate_only=message.validate_only)
        except Exception as error:
            result.error_code = error_code(error)
            result.error_message = error_message(error)
        results.append(result)
    request.reply(AlterConfigsResponse(responses=results))


async def handle_incremental_alter_configs(request: Request) -> None:
    message: IncrementalAlterConfigsRequest = request.message
    configs = request.broker.configs
    results = []
    for resource in message.resources:
        result = IncrementalResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        try:
            alterations = [
                Alteration(config.name, _operation(config.config_operation), config.value)
                for config in resource.configs
            ]
            if resource.resource_type == ResourceType.BROKER_LOGGER:
                loggers = LoggerController(request.broker.broker_id)
                loggers.alter(resource.resource_name, alterations, validate_only=message.validate_only)
                results.append(result)
                continue
            alter = _by_type(resource.resource_type, configs.alter_topic, configs.alter_broker, configs.alter_group)
            await alter(resource.resource_name, alterations, validate_only=message.validate_only)
        except Exception as error:
            result.error_code = error_code(error)
            result.error_message = error_message(error)
        results.append(result)
    request.reply(IncrementalAlterConfigsResponse(responses=results))


def _by_type(kind: int, topic: Any, broker: Any, group: Any) -> Any:
    if kind == ResourceType.TOPIC:
        return topic
    if kind == ResourceType.BROKER:
        return broker
    if kind == ResourceType.GROUP:
        return group
    raise InvalidRequestError(
        f"AlterConfigs is only supported for topics, brokers and groups, but resource type is {kind}"
    )


def _operation(code: int) -> Op:
    try:
        return Op(code)
    except ValueError:
        raise InvalidRequestError(f"Unknown config operation: {code}") from None


HANDLERS = {
    DescribeConfigsRequest: handle_describe_configs,
    AlterConfigsRequest: handle_alter_configs,
    IncrementalAlterConfigsRequest: handle_incremental_alter_configs,
}
