"""Topics, configurations and deletions.

Requests that change topics go to the controller; a result that fails is raised as the error that the broker reports,
with its own words. Where a call names several topics and some fail, the error of the first that failed is raised; the
others have been dealt with all the same.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from kafkalog.protocol.errors import ErrorCode, error_for
from kafkalog.protocol.messages.alter_configs import AlterableConfig, AlterConfigsRequest, AlterConfigsResource
from kafkalog.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kafkalog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kafkalog.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kafkalog.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kafkalog.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kafkalog.protocol.messages.incremental_alter_configs import AlterableConfig as IncrementalConfig
from kafkalog.protocol.messages.incremental_alter_configs import AlterConfigsResource as IncrementalResource
from kafkalog.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest

from .closing import Closing
from .cluster import Cluster, ClusterMetadata, TopicMetadata
from .config import ClientConfig
from .errors import KafkaError, about
from .retry import Retry
from .types import TopicPartition

_log = logging.getLogger(__name__)


class ResourceType(IntEnum):
    """What has a configuration."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigSource(IntEnum):
    """Where a configuration's value comes from."""

    UNKNOWN = 0
    TOPIC = 1
    BROKER = 2
    ALL_BROKERS = 3
    STATIC = 4
    DEFAULT = 5
    LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class ConfigOperation(IntEnum):
    """What `Admin.incremental_alter_configs` does to a configuration; the last two are for lists."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class ConfigResource(NamedTuple):
    """A topic or a group by name, or a broker by id (``""``: the default of all brokers)."""

    type: ResourceType
    name: str

    @classmethod
    def topic(cls, name: str) -> ConfigResource:
        return cls(ResourceType.TOPIC, name)

    @classmethod
    def broker(cls, node_id: int) -> ConfigResource:
        return cls(ResourceType.BROKER, str(node_id))


class ConfigSynonym(NamedTuple):
    """A place that a configuration's value may come from, and the value there."""

    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One configuration; ``value`` is None where it is unset or secret.

    ``synonyms``: where the value comes from and would come from next, if they were asked for.
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
    """A change of one configuration; ``value`` is not needed to DELETE."""

    name: str
    value: str | None = None
    operation: ConfigOperation = ConfigOperation.SET


class NewTopic(NamedTuple):
    """A topic to create: -1 partitions or replicas for the broker's default.

    ``assignments`` has the replicas of each partition, the preferred leader first, in place of the two numbers.
    """

    name: str
    num_partitions: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = {}
    assignments: Mapping[int, Sequence[int]] | None = None


class Admin(Closing):
    """Administration of a cluster. Calls wait up to ``default.api.timeout.ms`` and then raise ClientTimeoutError."""

    def __init__(self, config: ClientConfig, *, cluster: Cluster | None = None) -> None:
        self._own_cluster = cluster is None
        self.cluster = cluster or Cluster(config)
        self._config = config

    def close(self) -> None:
        """Close all connections."""
        if self._own_cluster:
            self.cluster.close()

    # Topics

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics, or with ``validate_only`` find out whether they could be.

        Raises TopicAlreadyExistsError, InvalidTopicError, InvalidReplicationFactorError, InvalidConfigError, ….
        """
        wanted = [
            CreatableTopic(
                name=topic.name,
                num_partitions=-1 if topic.assignments else topic.num_partitions,
                replication_factor=-1 if topic.assignments else topic.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=list(replicas))
                    for index, replicas in (topic.assignments or {}).items()
                ],
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in topic.configs.items()],
            )
            for topic in topics
        ]
        self._change_topics(
            wanted,
            lambda left, retry: CreateTopicsRequest(
                topics=left, timeout_ms=self._timeout_ms(retry), validate_only=validate_only
            ),
            lambda response: response.topics,
        )

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics with all that is in them. Raises UnknownTopicOrPartitionError, …."""
        self._change_topics(
            [DeleteTopicState(name=name) for name in names],
            lambda left, retry: DeleteTopicsRequest(
                topics=left, topic_names=[topic.name or "" for topic in left], timeout_ms=self._timeout_ms(retry)
            ),
            lambda response: response.responses,
        )

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Make each topic have ``counts[name]`` partitions in all. Raises InvalidPartitionsError for fewer than now.

        ``assignments``: for some topics, the replicas of each new partition.
        """
        wanted = [
            CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=[CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments[name]]
                if assignments and name in assignments
                else None,
            )
            for name, count in counts.items()
        ]
        self._change_topics(
            wanted,
            lambda left, retry: CreatePartitionsRequest(
                topics=left, timeout_ms=self._timeout_ms(retry), validate_only=validate_only
            ),
            lambda response: response.results,
        )

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """The names of all topics, sorted; with ``internal`` also those that the cluster keeps for itself."""
        topics = self.cluster.metadata(refresh=True).topics.values()
        return sorted(topic.name for topic in topics if internal or not topic.is_internal)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """Partitions, leaders and replicas of topics (None: of all). Raises UnknownTopicOrPartitionError, …."""
        described = self.cluster.metadata(names, refresh=True).topics
        for topic in described.values():
            if topic.error_code not in (ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE):
                raise about(topic.error_code, f"topic {topic.name}")
        return described

    def describe_cluster(self) -> ClusterMetadata:
        """The cluster's id, brokers and controller."""
        return self.cluster.metadata([], refresh=True)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete all records before these offsets (-1: all there are); the partitions' new first offsets.

        Raises OffsetOutOfRangeError for an offset beyond the high watermark, PolicyViolationError where the topic is
        only compacted, UnknownTopicOrPartitionError.
        """
        retry = Retry(self._config)
        done: dict[TopicPartition, int] = {}
        while True:
            left = {tp: offset for tp, offset in before.items() if tp not in done}
            if not left:
                return {tp: done[tp] for tp in before}
            try:
                self._delete_records(left, retry, done)
            except Exception as error:
                retry.after(error)
                self.cluster.forget({tp.topic for tp in left})

    # Configurations

    def describe_configs(
        self, resources: Iterable[ConfigResource], names: Sequence[str] | None = None, *, synonyms: bool = False
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """The configurations of topics, brokers and groups, or those of them that are called one of ``names``."""
        described = {}
        for resource in resources:
            request = DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(
                        resource_type=resource.type,
                        resource_name=resource.name,
                        configuration_keys=None if names is None else list(names),
                    )
                ],
                include_synonyms=synonyms,
            )
            (result,) = self._to_resource(resource, request).results
            _raise(result)
            entries = [
                ConfigEntry(
                    each.name,
                    each.value,
                    _entry_source(each),
                    each.read_only,
                    each.is_sensitive,
                    tuple(ConfigSynonym(also.name, also.value, _source(also.source)) for also in each.synonyms),
                )
                for each in result.configs
            ]
            described[resource] = {entry.name: entry for entry in entries}
        return described

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change single configurations; the others stay as they are. Raises InvalidConfigError, …."""
        for resource, wanted in changes.items():
            configs = [
                IncrementalConfig(name=change.name, config_operation=change.operation, value=change.value)
                for change in wanted
            ]
            self._alter(
                resource,
                IncrementalAlterConfigsRequest(
                    resources=[
                        IncrementalResource(resource_type=resource.type, resource_name=resource.name, configs=configs)
                    ],
                    validate_only=validate_only,
                ),
            )

    def alter_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> None:
        """Replace all configurations of each resource: what is not named goes back to its default.

        `incremental_alter_configs` is safer, and needs Kafka 2.3.
        """
        for resource, wanted in configs.items():
            entries = [AlterableConfig(name=name, value=value) for name, value in wanted.items()]
            self._alter(
                resource,
                AlterConfigsRequest(
                    resources=[
                        AlterConfigsResource(resource_type=resource.type, resource_name=resource.name, configs=entries)
                    ],
                    validate_only=validate_only,
                ),
            )

    # Inside

    def _timeout_ms(self, retry: Retry) -> int:
        return round(min(retry.left, self._config.request_timeout) * 1000)

    def _change_topics(
        self, topics: list[Any], build: Callable[[list[Any], Retry], Any], results: Callable[[Any], Iterable[Any]]
    ) -> None:
        """Send changes to the controller, again for those that fail retriably, and raise the first failure."""
        if not topics:
            return
        names = [topic.name for topic in topics]
        left = {topic.name: topic for topic in topics}
        failures: dict[str, Exception] = {}

        def attempt(retry: Retry) -> None:
            response = self.cluster.request_controller(build(list(left.values()), retry), deadline=retry.deadline)
            again: Exception | None = None
            for result in results(response):
                if result.error_code == ErrorCode.NONE:
                    left.pop(result.name, None)
                    continue
                error = _error(result, f"topic {result.name}")
                if error.retriable and error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    again = error
                else:
                    left.pop(result.name, None)
                    failures[result.name] = error
            if again is not None:
                raise again

        try:
            self.cluster.on_controller(attempt)
        finally:
            self.cluster.forget(names)
        for name in names:
            if name in failures:
                raise failures[name]

    def _delete_records(
        self, left: Mapping[TopicPartition, int], retry: Retry, done: dict[TopicPartition, int]
    ) -> None:
        by_leader: dict[int, dict[str, list[DeleteRecordsPartition]]] = defaultdict(lambda: defaultdict(list))
        for tp, offset in left.items():
            leader = self.cluster.leader_now(tp, retry.deadline).broker.node_id
            by_leader[leader][tp.topic].append(DeleteRecordsPartition(partition_index=tp.partition, offset=offset))
        for node_id, topics in by_leader.items():
            request = DeleteRecordsRequest(
                topics=[DeleteRecordsTopic(name=name, partitions=parts) for name, parts in topics.items()],
                timeout_ms=self._timeout_ms(retry),
            )
            response: DeleteRecordsResponse = self.cluster.request_to(node_id, request)
            failure: Exception | None = None
            for topic in response.topics:
                for each in topic.partitions:
                    tp = TopicPartition(topic.name, each.partition_index)
                    if each.error_code == ErrorCode.NONE:
                        done[tp] = each.low_watermark
                    else:
                        error = error_for(each.error_code)
                        failure = type(error)(f"partition {tp}: {error.message}")
            if failure is not None:
                raise failure

    def _alter(self, resource: ConfigResource, request: Any) -> None:
        (result,) = self._to_resource(resource, request).responses
        _raise(result)

    def _to_resource(self, resource: ConfigResource, request: Any) -> Any:
        """Ask the broker that a broker's configuration is about, any broker for everything else."""
        if resource.type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and resource.name:
            retry = Retry(self._config)
            known = self.cluster.metadata([], deadline=retry.deadline, refresh=True).brokers
            if int(resource.name) not in known:
                there = ", ".join(map(str, sorted(known)))
                _log.warning("there is no broker %s at present, but %s; trying again", resource.name, there)
            return retry.run(lambda: self.cluster.request_to(int(resource.name), request))
        return self.cluster.request_any(request)


def _error(result: Any, what: str) -> KafkaError:
    # Before version 1 (CreateTopics) and 5 (DeleteTopics) no reason is told.
    return about(result.error_code, what, result.error_message)


def _raise(result: Any) -> None:
    if result.error_code:
        kinds = {each.value: each.name.lower().replace("_", " ") for each in ResourceType}
        raise _error(result, f"{kinds.get(result.resource_type, 'resource')} {result.resource_name}".rstrip())


def _entry_source(entry: Any) -> ConfigSource:
    if entry.config_source < 0:
        return ConfigSource.DEFAULT if entry.is_default else ConfigSource.UNKNOWN
    return _source(entry.config_source)


def _source(code: int) -> ConfigSource:
    try:
        return ConfigSource(code)
    except ValueError:
        return ConfigSource.UNKNOWN
