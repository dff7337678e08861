"""A topic's configuration as it is stored, with names and values that this broker may not know.

What a request sets is checked before it is stored. But other brokers and tools write to ZooKeeper, too, and a stored
configuration is in force as far as it can be read. Names that are not known are ignored, as in Kafka. Kafka does not
start with a value that it cannot read. Here every other key is in force then, and nothing is removed from a topic if
the key says what is to be removed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from broker.config.definition import ConfigError, Value
from broker.config.topic import TOPIC_CONFIG

UNREADABLE = "kafkalog.unreadable"
"""The only name in the configuration of a topic whose node in ZooKeeper cannot be read; its value says why."""
REMOVAL_KEYS = frozenset(
    {"cleanup.policy", "retention.ms", "retention.bytes", "delete.retention.ms", "min.compaction.lag.ms"}
)
"""The keys that say which records are removed. The default of one of them may remove what its value would keep."""
REPAIR_KEYS = ("cleanup.policy", "retention.ms")
"""The keys that have to be set to replace a configuration that cannot be read."""


class StoredTopicConfig(NamedTuple):
    """A topic's overrides as far as they can be read."""

    values: dict[str, Value]
    """The overrides that are in force."""
    unknown: tuple[str, ...] = ()
    """The names that are ignored."""
    faults: Mapping[str, str] = {}
    """The reasons why keys are not in force, by their names."""

    @property
    def is_held(self) -> bool:
        """True if nothing may be removed from the topic, because it is not known what is to be removed."""
        return not self.faults.keys().isdisjoint({*REMOVAL_KEYS, UNREADABLE})


def read_topic_config(texts: Mapping[str, str]) -> StoredTopicConfig:
    """Read the stored overrides of a topic."""
    values: dict[str, Value] = {}
    unknown: list[str] = []
    faults: dict[str, str] = {}
    for name, text in texts.items():
        key = TOPIC_CONFIG.get(name)
        if name == UNREADABLE:
            faults[name] = text
        elif key is None:
            unknown.append(name)
        else:
            try:
                values[name] = key.parse(text)
            except ConfigError as error:
                faults[name] = str(error)
    return StoredTopicConfig(values, tuple(sorted(unknown)), faults)
