"""The topics, groups and configurations that a mirror takes: MirrorMaker 2's filters.

A filter is a list of regular expressions between commas, each of which must match a whole name. What is excluded stays
out even if it is included. Source: `connect/mirror/.../DefaultTopicFilter`, `DefaultGroupFilter`,
`DefaultConfigPropertyFilter`, and `MirrorSourceConnector.shouldReplicateTopic`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field

from kafkalog.client.consumer.topic_filter import TopicFilter
from kafkalog.client.errors import ConfigError
from kafkalog.mirror.topics.naming import Naming

TOPICS_EXCLUDE = r".*[\-\.]internal, .*\.replica, __.*"
GROUPS_EXCLUDE = "console-consumer-.*, connect-.*, __.*"
CONFIGS_EXCLUDE = (
    r"follower\.replication\.throttled\.replicas, leader\.replication\.throttled\.replicas, "
    r"message\.timestamp\.difference\.max\.ms, message\.timestamp\.type, unclean\.leader\.election\.enable, "
    r"min\.insync\.replicas"
)


def patterns(text: str, key: str) -> re.Pattern[str]:
    """Compile a list of regular expressions; an empty list matches nothing.

    Raises:
        ConfigError: An expression is invalid. The text names the property `key`.
    """
    parts = [part for part in (part.strip() for part in text.split(",")) if part]
    try:
        for part in parts:
            re.compile(part)
        return re.compile("|".join(f"(?:{part})" for part in parts) if parts else r"(?!)")
    except re.error as error:
        raise ConfigError(f"{key}={text}: {error}; expected regular expressions, separated by commas") from None


@dataclass(frozen=True)
class NameFilter:
    """Names that one expression matches and another one does not."""

    include: re.Pattern[str]
    exclude: re.Pattern[str]

    @classmethod
    def of(cls, include: str, exclude: str, key: str) -> NameFilter:
        """Make a filter of two lists; `key` is the property of the first one.

        Raises:
            ConfigError: An expression is invalid.
        """
        return cls(patterns(include, key), patterns(exclude, f"{key}.exclude"))

    def allows(self, name: str) -> bool:
        return self.include.fullmatch(name) is not None and self.exclude.fullmatch(name) is None


@dataclass(frozen=True)
class MirroredTopics(TopicFilter):
    """The topics of the source that are mirrored, for the consumer's subscription.

    Topics of a cluster that is mirrored into itself may be the mirror's own copies. MirrorMaker 2 copies these, too,
    and then their copies (`MirrorSourceConnector.isCycle` knows the target's alias only).
    """

    naming: Naming
    names: NameFilter
    heartbeats: bool = True
    """True if heartbeats are mirrored, whatever the filter says."""
    returning: Collection[str] = field(default=())
    """Topics that a reverse mirror writes under their own names: to mirror them would never end."""
    into_itself: bool = False
    """True if source and target are the same cluster, so that topics that came from the source stay out."""

    def allows(self, topic: str) -> bool:
        wanted = self.names.allows(topic) or (self.heartbeats and self.naming.is_heartbeats(topic))
        return (
            wanted
            and not self.naming.is_internal(topic)
            and not self.naming.is_cycle(topic)
            and not (self.into_itself and self.naming.is_copy(topic))
            and topic not in self.returning
        )
