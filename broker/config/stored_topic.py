"""A topic's configuration as it is stored, with names and values that this broker may not know.

What a request sets is checked before it is stored. But other brokers and tools write to ZooKeeper, too, and a stored
configuration is in force as far as it can be read. Names that are not known are ignored, as in Kafka. Kafka does not
start with a value that it cannot read, and keeps the last one if it runs. Here every other key is in force then. A
broker that runs keeps the last value of that key, too, and at a start uses a default that does no harm. Nothing is
removed from a topic if the key says what is to be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from broker.config.definition import ConfigError, Value
from broker.config.topic import MAX_INT, TOPIC_CONFIG

UNREADABLE = "kafkalog.unreadable"
"""The only name in the configuration of a topic whose node in ZooKeeper cannot be read; its value says why."""
REMOVAL_KEYS_OF = {
    "delete": ("retention.ms", "retention.bytes"),
    "compact": ("delete.retention.ms", "min.compaction.lag.ms"),
}
"""The keys that say which records are removed under each `cleanup.policy`."""
REMOVAL_KEYS = frozenset({"cleanup.policy", *REMOVAL_KEYS_OF["delete"], *REMOVAL_KEYS_OF["compact"]})
"""The keys that say which records are removed. The default of one of them may remove what its value would keep."""
MIN_INSYNC = "min.insync.replicas"
ALL_REPLICAS = MAX_INT
"""The `min.insync.replicas` of a topic whose value has never been read. No partition has more replicas than that."""
REPAIR = "cleanup.policy; {}".format(
    "; ".join(f"for the policy {policy} also {' and '.join(keys)}" for policy, keys in REMOVAL_KEYS_OF.items())
)
"""The keys that have to be set to replace a configuration that cannot be read, for messages."""


class StoredTopicConfig(NamedTuple):
    """A topic's overrides as far as they can be read."""

    values: dict[str, Value]
    """The overrides that are in force."""
    unknown: tuple[str, ...] = ()
    """The names that are ignored."""
    faults: Mapping[str, str] = {}
    """The reasons why stored values are not in force, by the names of their keys."""
    is_policy_known: bool = True
    """False if `cleanup.policy` cannot be read, and no value of it was in force before."""

    @property
    def is_held(self) -> bool:
        """True if nothing may be removed from the topic, because it is not known what is to be removed."""
        return not self.faults.keys().isdisjoint({*REMOVAL_KEYS, UNREADABLE})


def removal_keys(policy: Iterable[str]) -> tuple[str, ...]:
    """Return the keys that say which records are removed from a topic with that `cleanup.policy`."""
    return ("cleanup.policy", *(key for each in policy for key in REMOVAL_KEYS_OF[each]))


def read_topic_config(texts: Mapping[str, str], last: StoredTopicConfig | None = None) -> StoredTopicConfig:
    """Read the stored overrides of a topic.

    Args:
        texts: the overrides as they are stored.
        last: what was in force before. What cannot be read leaves it in force.
    """
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
    missing = [key.name for key in TOPIC_CONFIG] if UNREADABLE in faults else [*faults]
    if last is not None:
        values |= {name: last.values[name] for name in missing if name in last.values}
    elif MIN_INSYNC in missing:
        # The default may be less. Records would then be acknowledged before they are safe.
        values[MIN_INSYNC] = ALL_REPLICAS
    is_policy_known = "cleanup.policy" not in missing or (last is not None and last.is_policy_known)
    return StoredTopicConfig(values, tuple(sorted(unknown)), faults, is_policy_known)
