"""Keep the target's topics as those of the source are: they exist, with as many partitions and the same configuration.

A topic that the mirror creates has the configurations that are set for the topic in the source. Later changes are
copied, too. Configurations that `config.properties.exclude` names belong to the target. Partitions are added, never
removed. While a topic's configuration in the source cannot be read, it is not copied. If the mirror creates the topic
meanwhile, nothing is removed from it. Source: `MirrorSourceConnector.computeAndCreateTopicPartitions`,
`syncTopicConfigs`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkalog.client.admin import Admin
from kafkalog.client.admin.configs import (
    UNREADABLE,
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    ConfigSource,
)
from kafkalog.client.admin.topics import NewTopic
from kafkalog.client.errors import about
from kafkalog.client.metadata import TopicMetadata
from kafkalog.mirror.settings import MirrorSettings
from kafkalog.mirror.topics.selection import NameFilter
from kafkalog.protocol.errors import (
    ErrorCode,
    InvalidConfigError,
    InvalidPartitionsError,
    KafkaError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)

logger = logging.getLogger(__name__)

MIRROR_SOURCE = "kafkalog.mirror.source"
"""The configuration of a topic of kafkalog that keeps the offsets of the cluster with this alias."""
MESSAGE_FORMAT = "message.format.version"
COMPACTED = {"cleanup.policy": "compact"}
_OFTEN_WRITTEN = {**COMPACTED, "segment.bytes": str(16 << 20), "delete.retention.ms": "600000"}
"""Of topics that get records in each transaction: a process that begins reads them whole. Only closed segments are
compacted, and transaction markers stay for `delete.retention.ms`."""


KEEPS_ALL = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "max.message.bytes": str((1 << 31) - 1),
}
"""Of topics whose configuration in the source cannot be read: all records are taken, and none are removed."""


def check_readable(entries: Mapping[str, ConfigEntry]) -> None:
    """Check that a topic's configuration can be read.

    Raises:
        InvalidConfigError: it cannot. It is not known then what is set in the topic.
    """
    if UNREADABLE in entries:
        raise InvalidConfigError(entries[UNREADABLE].value)


def set_in_topic(entries: Mapping[str, ConfigEntry], wanted: NameFilter) -> dict[str, str]:
    """Select the configurations that are set for a topic and that a mirror copies.

    Raises:
        InvalidConfigError: the topic's configuration cannot be read.
    """
    check_readable(entries)
    return {
        name: entry.value
        for name, entry in entries.items()
        if entry.source is ConfigSource.TOPIC and _may_copy(entry) and wanted.allows(name) and entry.value is not None
    }


def _may_copy(entry: ConfigEntry) -> bool:
    # Of whom a topic is a mirror does not depend on its source, and mirrors write record batches of the format v2 only.
    return not entry.read_only and not entry.sensitive and entry.name not in (MIRROR_SOURCE, MESSAGE_FORMAT)


def without_default_factor(error: UnsupportedVersionError) -> UnsupportedVersionError:
    """Name the mirror's property in an error of a cluster that has no default for a topic's replication factor."""
    return UnsupportedVersionError(f"{error.message} (for a mirror, set the property replication.factor)")


def config_changes(
    source: Mapping[str, ConfigEntry], target: Mapping[str, ConfigEntry], wanted: NameFilter
) -> list[ConfigChange]:
    """Return what must change in the target: set what is set in the source, delete what is not set there any more.

    Raises:
        InvalidConfigError: the configuration of one of the topics cannot be read.
    """
    ours, theirs = set_in_topic(source, wanted), set_in_topic(target, wanted)
    changes = [ConfigChange(name, value) for name, value in ours.items() if theirs.get(name) != value]
    gone = [name for name in theirs if name not in ours and name in source]
    return changes + [ConfigChange(name, operation=ConfigOperation.DELETE) for name in gone]


def unset_configs(present: Mapping[str, ConfigEntry], wanted: Mapping[str, str]) -> list[ConfigChange]:
    """Return the configurations that are wanted, have another value, and are not set in the topic itself."""
    return [
        ConfigChange(name, value)
        for name, value in wanted.items()
        if name in present and present[name].source is not ConfigSource.TOPIC and present[name].value != value
    ]


def changed(present: Mapping[str, ConfigEntry], changes: Iterable[ConfigChange]) -> dict[str, str]:
    """Return all configurations that are set in a topic after changes that set and delete some."""
    after = {name: entry.value for name, entry in present.items() if entry.source is ConfigSource.TOPIC}
    for change in changes:
        after[change.name] = None if change.operation is ConfigOperation.DELETE else change.value
    return {name: value for name, value in after.items() if value is not None}


class Refusal(NamedTuple):
    """A topic that the target does not make, or not with all of its partitions."""

    error: KafkaError
    partitions: int
    """The number of partitions that the target has."""


class TopicFollower:
    """The topics of one mirror, by connections of the caller."""

    def __init__(self, settings: MirrorSettings, source: Admin, target: Admin) -> None:
        self._settings, self._source, self._target = settings, source, target
        self._naming = settings.naming
        self._configs = settings.config_filter
        self._configs_due_at = float("-inf")
        self._followed: frozenset[str] = frozenset()
        """The topics whose configurations were copied before."""

    def make_own(self) -> None:
        """Create the missing ones of the mirror's internal topics in the target, compacted, with one partition.

        Those that are there, of MirrorMaker 2 or of an older mirror, get the configurations that they have by default
        only, so that they do not grow to a size that is slow to read.
        """
        own: dict[str, dict[str, str]] = {}
        if self._settings.keeps_offsets:
            own[self._naming.offsets] = COMPACTED
        else:
            own |= dict.fromkeys((self._naming.offsets, self._naming.offset_syncs), _OFTEN_WRITTEN)
        if self._settings.emit_checkpoints:
            own[self._naming.checkpoints] = COMPACTED
        if self._settings.brings_groups_back:
            own[self._naming.group_marks] = COMPACTED
        factor = self._settings.replication_factor
        there = self._describe(self._target, own)
        missing = [NewTopic(name, 1, factor, configs) for name, configs in own.items() if not there[name].partitions]
        for error in self._create(missing).values():
            raise error
        for name, configs in own.items():
            self._complete(ConfigResource.topic(name), configs)

    def _complete(self, topic: ConfigResource, wanted: Mapping[str, str]) -> None:
        """Set the configurations that nobody has set in a topic of the mirror; an error is logged."""
        try:
            present = self._target.describe_configs([topic])[topic]
            changes = unset_configs(present, wanted)
            if changes:
                self._change(topic, present, changes)
                logger.info("topic %s: set %s", topic.name, ", ".join(change.name for change in changes))
        except KafkaError as error:
            logger.warning("topic %s is not configured for a mirror: %s", topic.name, error.message)

    def make(self, topics: Iterable[str]) -> dict[str, Refusal]:
        """Create the target's topics for these of the source, or add the partitions that they lack.

        Returns:
            What the target refuses, by the topics of the source. It keeps no other topic back.
            (`MirrorSourceConnector.createNewTopics`, `createNewPartitions`)

        Raises:
            KafkaError: The mirror lacks rights, or a topic of the source cannot be described.
            ClientError: A cluster cannot be asked.
        """
        described = {name: topic for name, topic in self._describe(self._source, topics).items() if topic.partitions}
        remote = {name: self._naming.remote(name) for name in described}
        there = self._target.cluster.metadata(remote.values(), refresh=True).topics
        refused = {
            name: Refusal(about(there[remote[name]].error_code, f"topic {remote[name]}"), 0)
            for name in described
            if there[remote[name]].error_code not in _WITHOUT_PARTITIONS
        }
        missing = [name for name in described if name not in refused and not there[remote[name]].partitions]
        configs = self._source.describe_configs([ConfigResource.topic(name) for name in missing])
        own = {MIRROR_SOURCE: self._settings.source} if self._settings.keeps_offsets else {}
        errors = self._create(
            [
                NewTopic(
                    remote[name],
                    len(described[name].partitions),
                    self._settings.replication_factor,
                    self._initial(name, configs[ConfigResource.topic(name)]) | own,
                )
                for name in missing
            ]
        )
        refused |= {name: Refusal(errors[remote[name]], 0) for name in missing if remote[name] in errors}
        for name in described.keys() - refused.keys() - set(missing):
            before, count = len(there[remote[name]].partitions), len(described[name].partitions)
            if count > before and (error := self._grow(remote[name], count)) is not None:
                refused[name] = Refusal(error, before)
        for refusal in refused.values():
            if refusal.error.code in _LACKING_RIGHTS:
                raise refusal.error
        return refused

    def _grow(self, name: str, count: int) -> KafkaError | None:
        """Add partitions to a topic of the target; return why it refuses."""
        try:
            self._target.create_partitions({name: count})
        except InvalidPartitionsError:
            # Another process of the mirror was faster.
            logger.debug("topic %s has its partitions already", name)
        except KafkaError as error:
            return error
        else:
            logger.info("topic %s has %d partitions now", name, count)
        return None

    def _initial(self, name: str, entries: Mapping[str, ConfigEntry]) -> dict[str, str]:
        """Return the configuration with which the target's topic of this one of the source is created."""
        try:
            return set_in_topic(entries, self._configs)
        except InvalidConfigError as error:
            # Other topics do not wait for this one, and its records are safe in the target.
            configs = {key: value for key, value in KEEPS_ALL.items() if self._configs.allows(key)}
            logger.warning(
                "topic %s gets the defaults of the target and %s, because its configuration cannot be copied: %s",
                self._naming.remote(name),
                ", ".join(f"{key}={value}" for key, value in configs.items()),
                error.message,
            )
            return configs

    def follow_configs(self, topics: Collection[str]) -> None:
        """Copy the configurations of all of these topics if it is time, else of further ones, which may have changed.

        The process gets its topics after its start, and they may have changed while no mirror ran.

        Raises:
            ClientError: A cluster cannot be asked.
        """
        now = time.monotonic()
        is_due = now >= self._configs_due_at
        copied = self._sync_configs(name for name in topics if is_due or name not in self._followed)
        self._followed = (self._followed & frozenset(topics)) | copied
        if is_due:
            self._configs_due_at = now + self._settings.sync_configs_interval

    def _sync_configs(self, topics: Iterable[str]) -> set[str]:
        """Change the configurations of the target's topics to those of the source; errors are logged.

        Returns:
            The topics whose configurations are the same now.
        """
        copied = set()
        for name in topics:
            ours, theirs = ConfigResource.topic(name), ConfigResource.topic(self._naming.remote(name))
            try:
                source = self._source.describe_configs([ours])[ours]
                target = self._target.describe_configs([theirs])[theirs]
                if changes := config_changes(source, target, self._configs):
                    self._change(theirs, target, changes)
                    logger.info("topic %s: changed %s", theirs.name, ", ".join(change.name for change in changes))
                copied.add(name)
            except UnknownTopicOrPartitionError:
                logger.debug("topic %s is gone", name)
            except KafkaError as error:
                logger.warning("the configuration of topic %s is not copied: %s", name, error.message)
        return copied

    def _change(
        self, topic: ConfigResource, present: Mapping[str, ConfigEntry], changes: Sequence[ConfigChange]
    ) -> None:
        """Change single configurations of a topic of the target."""
        try:
            self._target.incremental_alter_configs({topic: changes})
        except UnsupportedVersionError:
            # Before Kafka 2.3 all that are set in a topic are replaced at once, as MirrorMaker 2 does there, too.
            self._target.alter_configs({topic: changed(present, changes)})

    @staticmethod
    def _describe(admin: Admin, topics: Iterable[str]) -> dict[str, TopicMetadata]:
        """Describe topics; those that do not exist have no partitions."""
        found = admin.cluster.metadata(topics, refresh=True).topics
        for topic in found.values():
            if topic.error_code not in _WITHOUT_PARTITIONS:
                admin.describe_topics([topic.name])
        return found

    def _create(self, topics: Iterable[NewTopic]) -> dict[str, KafkaError]:
        """Create topics, each by itself; return why the target refuses some."""
        refused: dict[str, KafkaError] = {}
        for topic in topics:
            try:
                self._create_one(topic)
                logger.info("created topic %s with %d partitions", topic.name, topic.num_partitions)
            except TopicAlreadyExistsError:
                logger.debug("topic %s was created meanwhile", topic.name)
            except KafkaError as error:
                refused[topic.name] = error
        return refused

    def _create_one(self, topic: NewTopic) -> None:
        try:
            self._target.create_topics([topic])
        except UnsupportedVersionError as error:
            raise without_default_factor(error) from error
        except InvalidConfigError:
            if MIRROR_SOURCE not in topic.configs:
                raise
            # Apache Kafka does not know it. If it refuses another one, it says so now.
            known = {name: value for name, value in topic.configs.items() if name != MIRROR_SOURCE}
            self._target.create_topics([topic._replace(configs=known)])


_LACKING_RIGHTS = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
_WITHOUT_PARTITIONS = (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE)
