"""DescribeConfigs (key 32), AlterConfigs (key 33) and IncrementalAlterConfigs (key 44)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from broker.api.context import Request
from broker.api.errors import Answering
from broker.config.stored_topic import UNREADABLE
from broker.controller.alterations import Alteration, Op
from broker.controller.configs import Described, ResourceChange, ResourceKind
from broker.controller.loggers import LoggerController
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import (
    ClusterAuthorizationFailedError,
    GroupAuthorizationFailedError,
    InvalidRequestError,
    TopicAuthorizationFailedError,
)
from kafkalog.protocol.messages import alter_configs, incremental_alter_configs
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

AnyResource = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource
AnyResult = AlterConfigsResourceResponse | IncrementalResourceResponse
BROKER_LOGGER = 8
"""The type of a resource whose configurations are not kept in the registry."""
Resource = tuple[int, str]
DEFAULT_CONFIG = 5
"""The source of a value that was not set (the default)."""
LOGGER_CONFIG = 6
"""The source of a logger's level."""


async def handle_describe_configs(request: Request) -> None:
    message: DescribeConfigsRequest = request.message
    # A resource that is named twice is described once: its description is 1,000 times as long as the question. Its keys
    # are kept in their order in the request, each once.
    wanted: dict[Resource, dict[str, None] | None] = {}
    async for resource in request.each(message.resources):
        key, names = (resource.resource_type, resource.resource_name), resource.configuration_keys
        before = wanted.get(key, {})
        # As in Kafka, no names mean all.
        if not names or before is None:
            wanted[key] = None
        else:
            before.update(await request.distinct(names))
            wanted[key] = before
    results = []
    async for (kind, name), keys in request.each(wanted.items()):
        result = DescribeConfigsResult(error_message=None, resource_type=kind, resource_name=name)
        with Answering(result):
            _check_allowed(request, AclOperation.DESCRIBE_CONFIGS, kind, name)
            configs = {config.name: config for config in _describe(request, kind, name)}
            # Whoever asks for some keys has to know, too, that none of them can be read.
            if keys is None or UNREADABLE in configs:
                result.configs = list(configs.values())
            else:
                result.configs = [configs[key] async for key in request.each(keys) if key in configs]
        results.append(result)
    await request.answer(DescribeConfigsResponse(results=results), wanted)


def _check_allowed(request: Request, operation: AclOperation, kind: int, name: str) -> None:
    """Refuse a client that may not do an operation with the configurations of a resource.

    Raises:
        TopicAuthorizationFailedError, GroupAuthorizationFailedError, ClusterAuthorizationFailedError: it may not.
    """
    if kind == ResourceKind.TOPIC:
        if not request.allows(operation, AclResourceType.TOPIC, name):
            raise TopicAuthorizationFailedError
    elif kind == ResourceKind.GROUP:
        if not request.allows(operation, AclResourceType.GROUP, name):
            raise GroupAuthorizationFailedError
    elif not request.allows_cluster(operation):
        raise ClusterAuthorizationFailedError


def _describe(request: Request, kind: int, name: str) -> Iterator[DescribeConfigsResourceResult]:
    configs = request.broker.configs
    if kind == BROKER_LOGGER:
        levels = LoggerController(request.broker.broker_id).describe(name)
        return (_logger(logger, level) for logger, level in levels.items())
    if kind == ResourceKind.TOPIC:
        described = configs.describe_topic(name)
    elif kind == ResourceKind.BROKER:
        described = configs.describe_broker(name)
    elif kind == ResourceKind.GROUP:
        described = configs.describe_group(name)
    else:
        raise InvalidRequestError(f"Unsupported resource type: {kind}")
    return (_entry(entry, request.version, request.message) for entry in described)


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
        documentation=(entry.key.doc or None) if message.include_documentation else None,
    )


def _logger(name: str, level: str) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(name=name, value=level, read_only=False, config_source=LOGGER_CONFIG)


async def handle_alter_configs(request: Request) -> None:
    message: AlterConfigsRequest = request.message
    counts = await _counted(request, message.resources)
    results, changes = [], []
    async for resource in request.each(message.resources):
        result = AlterConfigsResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        with Answering(result):
            _check_once(counts, resource)
            _check_allowed(request, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
            values = [(config.name, config.value) async for config in request.each(resource.configs)]
            kind = _kind(resource.resource_type)
            changes.append((result, request.broker.configs.replacement(kind, resource.resource_name, values)))
        results.append(result)
    await _alter(request, changes, validate_only=message.validate_only)
    await request.answer(AlterConfigsResponse(responses=results), counts, changes)


async def handle_incremental_alter_configs(request: Request) -> None:
    message: IncrementalAlterConfigsRequest = request.message
    counts = await _counted(request, message.resources)
    results, changes = [], []
    async for resource in request.each(message.resources):
        result = IncrementalResourceResponse(
            error_message=None, resource_type=resource.resource_type, resource_name=resource.resource_name
        )
        with Answering(result):
            _check_once(counts, resource)
            _check_allowed(request, AclOperation.ALTER_CONFIGS, resource.resource_type, resource.resource_name)
            alterations = [
                Alteration(config.name, _operation(config.config_operation), config.value)
                async for config in request.each(resource.configs)
            ]
            if resource.resource_type == BROKER_LOGGER:
                loggers = LoggerController(request.broker.broker_id)
                loggers.alter(resource.resource_name, alterations, validate_only=message.validate_only)
            else:
                kind = _kind(resource.resource_type)
                changes.append((result, request.broker.configs.alteration(kind, resource.resource_name, alterations)))
        results.append(result)
    await _alter(request, changes, validate_only=message.validate_only)
    await request.answer(IncrementalAlterConfigsResponse(responses=results), counts, changes)


async def _counted(request: Request, resources: Iterable[AnyResource]) -> Counter[Resource]:
    """Count how often the request names each resource."""
    counts = Counter[Resource]()
    async for resource in request.each(resources):
        counts[resource.resource_type, resource.resource_name] += 1
    return counts


def _check_once(counts: Counter[Resource], resource: AnyResource) -> None:
    if counts[resource.resource_type, resource.resource_name] > 1:
        raise InvalidRequestError("Each resource must appear at most once.")


async def _alter(request: Request, changes: Sequence[tuple[AnyResult, ResourceChange]], *, validate_only: bool) -> None:
    """Carry out changes; set the error in the result of each that fails."""
    wanted = [change for _, change in changes]
    outcomes = await request.broker.configs.alter(wanted, validate_only=validate_only)
    async for (result, _), error in request.each(zip(changes, outcomes, strict=True)):
        if error is not None:
            with Answering(result):
                raise error


def _kind(code: int) -> ResourceKind:
    try:
        return ResourceKind(code)
    except ValueError:
        raise InvalidRequestError(
            f"AlterConfigs is only supported for topics, brokers and groups, but resource type is {code}"
        ) from None


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
