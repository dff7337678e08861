"""The administrator's client: one object with a part for each subject."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from kafkalog.client.admin.configs import ConfigAdmin, ConfigChange, ConfigEntry, ConfigResource
from kafkalog.client.admin.connected import Connected
from kafkalog.client.admin.topics import NewTopic, TopicAdmin
from kafkalog.client.cluster import Cluster
from kafkalog.client.config import ClientConfig
from kafkalog.client.errors import ClientError
from kafkalog.client.metadata import ClusterMetadata, TopicMetadata
from kafkalog.client.properties.foreign import warn_about
from kafkalog.client.types import READ_UNCOMMITTED, OffsetAndTimestamp, TopicPartition
from kafkalog.protocol.errors import KafkaError

if TYPE_CHECKING:
    from kafkalog.client.admin.features import Features, FeatureUpdate
    from kafkalog.client.admin.groups.group_admin import GroupAdmin
    from kafkalog.client.admin.quotas import QuotaAdmin
    from kafkalog.client.admin.replicas.replica_admin import ReplicaAdmin
    from kafkalog.client.admin.security.acls import AclAdmin
    from kafkalog.client.admin.security.delegation_tokens import DelegationTokenAdmin
    from kafkalog.client.admin.security.scram_users import ScramUserAdmin
    from kafkalog.client.admin.transactions import TransactionsAdmin


class Admin(Connected):
    """Administer a cluster, as the Admin of Java's client and KafkaAdminClient of kafka-python do.

    Each part has the calls of one subject: `topics`, `configs`, `groups`, `quotas`, `replicas`, `transactions`,
    `acls`, `delegation_tokens` and `scram_users`. All of them use the same connections. The calls about topics and
    configurations may also be made on this object itself. A call waits up to `default.api.timeout.ms` and then raises
    ClientTimeoutError.

        with Admin({"bootstrap.servers": "localhost:9092"}) as admin:
            admin.create_topics([NewTopic("words", num_partitions=3)])
            print(admin.groups.list_groups())

    Args:
        config: The client's configuration, or its properties under Kafka's names.
        cluster: Connections to use instead of opening others. They stay the caller's: `close` leaves them open.

    Attributes:
        topics: The calls that create, delete, describe and grow topics, and delete their oldest records.
        configs: The calls that read and change configurations.
    """

    def __init__(self, config: ClientConfig | Mapping[str, str], *, cluster: Cluster | None = None) -> None:
        if not isinstance(config, ClientConfig):
            config = ClientConfig.from_dict(config)
            warn_about(config.unknown)
        super().__init__(config, cluster=cluster)
        self._config = config
        self.topics = TopicAdmin(self.cluster, config)
        self.configs = ConfigAdmin(self.cluster, config)

    # Parts that few programs use are imported when they are named: a command is to start at once.

    @cached_property
    def acls(self) -> AclAdmin:
        """Read, create and delete access control lists."""
        from kafkalog.client.admin.security.acls import AclAdmin

        return AclAdmin(self._config, cluster=self.cluster)

    @cached_property
    def delegation_tokens(self) -> DelegationTokenAdmin:
        """Create, describe, renew and expire delegation tokens."""
        from kafkalog.client.admin.security.delegation_tokens import DelegationTokenAdmin

        return DelegationTokenAdmin(self._config, cluster=self.cluster)

    @cached_property
    def groups(self) -> GroupAdmin:
        """List, describe and delete consumer groups; read and change their offsets; remove members."""
        from kafkalog.client.admin.groups.group_admin import GroupAdmin

        return GroupAdmin(self._config, cluster=self.cluster)

    @cached_property
    def quotas(self) -> QuotaAdmin:
        """Read and change client quotas."""
        from kafkalog.client.admin.quotas import QuotaAdmin

        return QuotaAdmin(self._config, cluster=self.cluster)

    @cached_property
    def replicas(self) -> ReplicaAdmin:
        """Elect leaders, reassign partitions, describe log directories and move replicas between them."""
        from kafkalog.client.admin.replicas.replica_admin import ReplicaAdmin

        return ReplicaAdmin(self._config, cluster=self.cluster)

    @cached_property
    def scram_users(self) -> ScramUserAdmin:
        """Read, set and delete SCRAM credentials of users."""
        from kafkalog.client.admin.security.scram_users import ScramUserAdmin

        return ScramUserAdmin(self._config, cluster=self.cluster)

    @cached_property
    def transactions(self) -> TransactionsAdmin:
        """List and describe transactions; find hanging ones and abort them; fence producers."""
        from kafkalog.client.admin.transactions import TransactionsAdmin

        return TransactionsAdmin(self._config, cluster=self.cluster)

    # Topics

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        """Create topics; see `TopicAdmin.create_topics`."""
        self.topics.create_topics(topics, validate_only=validate_only)

    def delete_topics(self, names: Iterable[str]) -> None:
        """Delete topics; see `TopicAdmin.delete_topics`."""
        self.topics.delete_topics(names)

    def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        assignments: Mapping[str, Sequence[Sequence[int]]] | None = None,
        validate_only: bool = False,
    ) -> None:
        """Add partitions to topics; see `TopicAdmin.create_partitions`."""
        self.topics.create_partitions(counts, assignments=assignments, validate_only=validate_only)

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """List the names of all topics; see `TopicAdmin.list_topics`."""
        return self.topics.list_topics(internal=internal)

    def describe_topics(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata]:
        """Describe partitions, leaders and replicas of topics; see `TopicAdmin.describe_topics`."""
        return self.topics.describe_topics(names)

    def describe_topics_each(self, names: Iterable[str] | None = None) -> dict[str, TopicMetadata | KafkaError]:
        """Describe topics, or the error of each one; see `TopicAdmin.describe_topics_each`."""
        return self.topics.describe_topics_each(names)

    def describe_cluster(self) -> ClusterMetadata:
        """Describe the cluster: its id, its brokers and its controller."""
        return self.cluster.metadata([], refresh=True)

    def describe_features(self) -> Features:
        """Describe the features of the cluster; see `kafkalog.client.admin.features`."""
        from kafkalog.client.admin.features import describe_features

        return describe_features(self.cluster)

    def update_features(
        self, updates: Mapping[str, FeatureUpdate], *, validate_only: bool = False
    ) -> dict[str, KafkaError | None]:
        """Change the levels of features; see `kafkalog.client.admin.features`."""
        from kafkalog.client.admin.features import update_features

        return update_features(self.cluster, updates, validate_only=validate_only)

    def list_offsets(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        """Find offsets by time; see `TopicAdmin.list_offsets`."""
        return self.topics.list_offsets(timestamps, isolation_level)

    def list_offsets_each(
        self, timestamps: Mapping[TopicPartition, int], isolation_level: int = READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAndTimestamp | Exception]:
        """Find offsets by time, or the error of each partition; see `TopicAdmin.list_offsets_each`."""
        return self.topics.list_offsets_each(timestamps, isolation_level)

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Delete the records before given offsets; see `TopicAdmin.delete_records`."""
        return self.topics.delete_records(before)

    # Configurations

    def describe_configs(
        self, resources: Iterable[ConfigResource], names: Sequence[str] | None = None, *, synonyms: bool = False
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Read configurations; see `ConfigAdmin.describe_configs`."""
        return self.configs.describe_configs(resources, names, synonyms=synonyms)

    def describe_configs_each(
        self, resources: Iterable[ConfigResource], names: Sequence[str] | None = None, *, synonyms: bool = False
    ) -> dict[ConfigResource, dict[str, ConfigEntry] | ClientError | KafkaError]:
        """Read configurations, or the error of each resource; see `ConfigAdmin.describe_configs_each`."""
        return self.configs.describe_configs_each(resources, names, synonyms=synonyms)

    def incremental_alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[ConfigChange]], *, validate_only: bool = False
    ) -> None:
        """Change single configurations; see `ConfigAdmin.incremental_alter_configs`."""
        self.configs.incremental_alter_configs(changes, validate_only=validate_only)

    def alter_configs(
        self, configs: Mapping[ConfigResource, Mapping[str, str]], *, validate_only: bool = False
    ) -> None:
        """Replace all configurations of resources; see `ConfigAdmin.alter_configs`."""
        self.configs.alter_configs(configs, validate_only=validate_only)
