"""The stored configurations of topics, and messages in the broker's log where they are not in force as a whole."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping

from broker.config.stored_topic import (
    ALL_REPLICAS,
    MIN_INSYNC,
    REPAIR,
    UNREADABLE,
    StoredTopicConfig,
    read_topic_config,
)
from broker.config.topic import TOPIC_CONFIG

logger = logging.getLogger(__name__)


class ConfigFaults:
    """Read topics' configurations, and tell what of them is not in force: once, until it changes.

    What cannot be read leaves in force what was read before.
    """

    def __init__(self) -> None:
        self._last: dict[str, StoredTopicConfig] = {}

    def read(self, topic: str, overrides: Mapping[str, str]) -> StoredTopicConfig:
        """Read a topic's configuration, and log its faults if they have changed since the last call for it."""
        before = self._last.get(topic)
        stored = read_topic_config(overrides, before)
        self._last[topic] = stored
        unknown, faults = ((), {}) if before is None else (before.unknown, before.faults)
        if stored.unknown and stored.unknown != unknown:
            logger.warning("Topic %s has configurations that are not known here: %s", topic, ", ".join(stored.unknown))
        if stored.faults != faults:
            for name, fault in stored.faults.items():
                _log(topic, name, fault, stored)
        if faults and not stored.faults:
            logger.info("The configuration of topic %s is in force as a whole again", topic)
        return stored

    def forget(self, topic: str) -> None:
        """Forget a topic of which nothing is here any more."""
        self._last.pop(topic, None)


def _log(topic: str, name: str, fault: str, stored: StoredTopicConfig) -> None:
    then = "".join(f". {consequence}" for consequence in _consequences(name, stored))
    if name == UNREADABLE:
        logger.error(
            "The configuration of topic %s cannot be read: %s. Set it anew with kafka-configs --alter --entity-type "
            "topics --entity-name %s, and name %s%s",
            topic,
            fault,
            topic,
            REPAIR,
            then,
        )
        return
    logger.error(
        "The configuration %s of topic %s is not in force: %s. Correct or delete it with kafka-configs --alter "
        "--entity-type topics --entity-name %s%s",
        name,
        topic,
        fault,
        topic,
        then,
    )


def _consequences(name: str, stored: StoredTopicConfig) -> Iterator[str]:
    """Say what is in force while a key, or the whole configuration, cannot be read."""
    is_whole = name == UNREADABLE
    values = {key: value for key, value in stored.values.items() if is_whole or key == name}
    is_strict = values.get(MIN_INSYNC) == ALL_REPLICAS
    if is_strict:
        del values[MIN_INSYNC]
    if values:
        shown = ", ".join(f"{key}={TOPIC_CONFIG[key].format(value)}" for key, value in values.items())
        yield f"Until then what was read last is in force: {shown}"
    elif is_whole or not is_strict:
        yield "Until then the broker's default is in force"
    if is_strict:
        yield "min.insync.replicas is not known: until then a produce with acks=all needs all replicas in the ISR"
    if not stored.is_policy_known and (is_whole or name == "cleanup.policy"):
        yield "cleanup.policy is not known: until then records of clients need a key, as compaction requires it"
    if stored.is_held:
        yield "Until then no records of the topic are removed, by retention or by compaction"
