"""Configurations of topics, brokers and groups: read and change them."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kafkalog.client.admin.unraised import log_unraised
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientError, about, left_out
from kafkalog.client.retry import Retry
from kafkalog.protocol.code import Code
from kafkalog.protocol.errors import KafkaError
from kafkalog.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from kafkalog.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from kafkalog.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from kafkalog.protocol.wire.releases import BROKER_LOGGERS, CLIENT_METRICS, GROUP_CONFIGS

logger = logging.getLogger(__name__)


RESOURCES_AT_ONCE = 200
"""The most topics and groups whose configurations one request asks for; an answer has about 30 entries for each."""

UNREADABLE = "kafkalog.unreadable"
"""The only configuration of a topic that the brokers of kafkalog cannot read; its value says why."""


class ResourceType(IntEnum):
    """The kind of thing that a configuration belongs to."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(Code):
    """The place that a configuration's value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


_SET_AT = {ResourceType.TOPIC: ConfigSource.TOPIC, ResourceType.BROKER: ConfigSource.STATIC}
"""The source of values that are no defaults, where the broker names none."""
_SINCE = {
    ResourceType.BROKER_LOGGER: BROKER_LOGGERS,
    ResourceType.CLIENT_METRICS: CLIENT_METRICS,
    ResourceType.GROUP: GROUP_CONFIGS,
}
"""The release of Apache Kafka that introduced a type."""


class ConfigOperation(IntEnum):
    """The ways in which `ConfigAdmin.incremental_alter_configs` changes a value; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(NamedTuple):
    """A topic or a group by its name, or a broker by its id (`""`: the default of all brokers)."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        return cls(ResourceType.BROKER, str(node_id))


class ConfigSynonym(NamedTuple):
    """A place that a configuration's value may come from, and the value set there."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One configuration; `value` is None where it is unset or secret.

    `synonyms` lists the places of the value in their order of precedence, where they were asked for.
    """

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        return self.source is ConfigSource.DEFAULT


class ConfigChange(NamedTuple):
    """A change of one configuration; DELETE needs no `value`."""

    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET


class ConfigAdmin:
    """The part of `Admin` that administers configurations, over the connections of `cluster`.

    Args:
        cluster: the connections.
        config: the client's configuration; that of `cluster` unless given.
        node_id: the broker that is asked about topics and groups; any broker unless given. The brokers of a mixed
            cluster do not know the same keys.
    """

    def __init__(self, cluster: Cluster, config: ClientConfig | None = None, node_id: int | None = None) -> None:
        self._cluster = cluster
        self._config = config or cluster.config
        self._node_id = node_id

    def describe_configs(
        self, resources: Iterable[ConfigResource], names: Sequence[str] | None = None, *, synonyms: bool = False
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Read the configurations of topics, brokers and groups; only those in `names`, where given.

        `synonyms` adds to each entry the places that its value may come from.

        Raises:
            UnknownTopicOrPartitionError: There is no such topic.
            ClientTimeoutError: A broker does not answer in time.
            KafkaError: The broker reports another error.
        """
        wanted = list(dict.fromkeys(resources))
        described: dict[ConfigResource, dict[str, ConfigEntry]] = {}
        for resource, found in self._describe(wanted, names, synonyms):
            if isinstance(found, Exception):
                raise found
            described[resource] = found
        return {resource: described[resource] for resource in wanted}

    def describe_configs_each(
        self, resources: Iterable[ConfigResource], names: Sequence[str] | None = None, *, synonyms: bool = False
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | ClientError | KafkaError]:
        """Read configurations as `describe_configs` does; return the configurations of each resource, or its error.

        Where a broker does not answer in time, this is the error of all resources that one request asked it about.
        """
        wanted = list(dict.fromkeys(resources))
        found = dict(self._describe(wanted, names, synonyms))
        return {resource: found[resource] for resource in wanted}

    def _describe(
        self, wanted: Iterable[ConfigResource], names: Sequence[str] | None, synonyms: bool
    ) -> Iterator[tuple[ConfigResource, dict[str, ConfigEntry] | ClientError | KafkaError]]:
        """Yield the configurations of each resource, or its error, as the answers come."""
        for some in _asked_together(wanted):
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=None if names is None else list(names),
                    )
                    for resource in some
                ],
                include_synonyms=synonyms,
            )
            try:
                response = self._to_resource(some[0], request)
            except (ClientError, KafkaError) as error:
                yield from ((resource, error) for resource in some)
                continue
            results: dict[tuple[int, str], list[Any]] = defaultdict(list)
            for result in response.results:
                results[result.resource_type, result.resource_name].append(result)
            for resource in some:
                try:
                    yield resource, _entries(resource, _checked(resource, results[resource.type, resource.name]))
                except KafkaError as error:
                    yield resource, error

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change single configurations; the others stay as they are.

        Where the broker refuses a resource, the others are changed all the same. The first error is raised, and
        further ones are logged.

        Raises:
            InvalidConfigError: A key is unknown, or a topic's key cannot have that value.
            InvalidRequestError: A broker's key cannot have that value.
            ClientTimeoutError: A broker does not answer in time. Errors of resources before are logged, and those that
                come after are not changed.
            KafkaError: The broker reports another error.
        """
        failed: list[KafkaError] = []
        try:
            for resource, wanted in changes.items():
                try:
                    self._change(resource, wanted, validate_only=validate_only)
                except KafkaError as error:
                    failed.append(error)
        except ClientError:
            log_unraised(failed)
            raise
        log_unraised(failed[1:])
        if failed:
            raise failed[0]

    def alter_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> None:
        """Replace all configurations of each resource: every one that is not given goes back to its default.

        `incremental_alter_configs` is safer, and needs Kafka 2.3.
        """
        for resource, wanted in configs.items():
            entries = [AlterableConfig(name=name, value=value) for name, value in wanted.items()]
            self._send(
                resource,
                AlterConfigsRequest(
                    resources=[
                        AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=entries)
                    ],
                    validate_only=validate_only,
                ),
            )

    def _change(self, resource: ConfigResource, changes: Iterable[ConfigChange], *, validate_only: bool) -> None:
        """Change single configurations of one resource."""
        configs = [
            IncrementalConfig(name=change.name, config_operation=change.operation, value=change.value)
            for change in changes
        ]
        wanted = IncrementalResource(resource_type=resource.type, resource_name=resource.name, configs=configs)
        self._send(resource, IncrementalAlterConfigsRequest(resources=[wanted], validate_only=validate_only))

    def _send(self, resource: ConfigResource, request: Any) -> None:
        _checked(resource, self._to_resource(resource, request).responses)

    def _to_resource(self, resource: ConfigResource, request: Any) -> Any:
        """Send a request about one broker's configuration to that broker, and any other request to any broker."""
        if _is_of_one_broker(resource):
            retry = Retry(self._config)
            known = self._cluster.metadata([], deadline=retry.deadline, refresh=True).brokers
            if int(resource.name) not in known:
                there = ", ".join(map(str, sorted(known)))
                logger.warning("there is no broker %s at present, only %s; trying again", resource.name, there)
            return self._to_broker(int(resource.name), request, retry)
        if (node_id := self._node_id) is not None:
            return self._to_broker(node_id, request, Retry(self._config))
        return self._cluster.request_any(request)

    def _to_broker(self, node_id: int, request: Any, retry: Retry) -> Any:
        return retry.run(lambda: self._cluster.request_to(node_id, request, timeout=retry.request_timeout))


def _checked(resource: ConfigResource, results: Sequence[Any]) -> Any:
    """Return the result of a request about one resource.

    Raises:
        KafkaError: The broker reports an error, or does not say what became of the resource.
    """
    what = f"{ResourceType(resource.type).name.lower().replace('_', ' ')} {resource.name}".rstrip()
    if len(results) != 1:
        since = _SINCE.get(resource.type)
        raise left_out(f"{what}, which brokers of Apache Kafka know since {since}" if since else what)
    (result,) = results
    if result.error_code:
        raise about(result.error_code, what, result.error_message)
    return result


def _asked_together(resources: Iterable[ConfigResource]) -> Iterator[list[ConfigResource]]:
    """Yield the resources that one request may name: many that any broker knows, or one broker."""
    shared: list[ConfigResource] = []
    for resource in resources:
        if _is_of_one_broker(resource):
            yield [resource]
        else:
            shared.append(resource)
    for start in range(0, len(shared), RESOURCES_AT_ONCE):
        yield shared[start : start + RESOURCES_AT_ONCE]


def _is_of_one_broker(resource: ConfigResource) -> bool:
    """Return whether only one broker knows the configuration."""
    return resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and bool(resource.name)


def _entries(resource: ConfigResource, result: Any) -> dict[str, ConfigEntry]:
    entries = [
        ConfigEntry(
            each.name,
            each.value,
            _entry_source(resource, each),
            each.read_only,
            each.is_sensitive,
            tuple(ConfigSynonym(also.name, also.value, ConfigSource(also.source)) for also in each.synonyms),
        )
        for each in result.configs
    ]
    return {entry.name: entry for entry in entries}


def _entry_source(resource: ConfigResource, entry: Any) -> ConfigSource:
    if entry.config_source >= 0:
        return ConfigSource(entry.config_source)
    # Brokers before Kafka 1.1 only tell whether it is a default. As in Kafka's DescribeConfigsResponse.
    return ConfigSource.DEFAULT if entry.is_default else _SET_AT.get(resource.type, ConfigSource.UNKNOWN)
