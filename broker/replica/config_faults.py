"""Messages in the broker's log about topics whose stored configuration is not in force as a whole."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from broker.config.stored_topic import REPAIR_KEYS, UNREADABLE, StoredTopicConfig

logger = logging.getLogger(__name__)

_Told = tuple[tuple[str, ...], Mapping[str, str]]


class ConfigFaults:
    """Tell what of topics' configurations is not in force: once, until it changes."""

    def __init__(self) -> None:
        self._told: dict[str, _Told] = {}

    def tell(self, topic: str, stored: StoredTopicConfig) -> None:
        """Log the faults of a topic's configuration, if they have changed since the last call for it."""
        found = stored.unknown, stored.faults
        before = self._told.pop(topic, ((), {}))
        if stored.unknown or stored.faults:
            self._told[topic] = found
        if found == before:
            return
        if stored.unknown and stored.unknown != before[0]:
            logger.warning("Topic %s has configurations that are not known here: %s", topic, ", ".join(stored.unknown))
        for name, fault in stored.faults.items():
            _log(topic, name, fault, is_held=stored.is_held)
        if before[1] and not stored.faults:
            logger.info("The configuration of topic %s is in force as a whole again", topic)

    def forget(self, topic: str) -> None:
        """Forget a topic of which nothing is here any more."""
        self._told.pop(topic, None)


def _log(topic: str, name: str, fault: str, *, is_held: bool) -> None:
    held = ". Until then no records of the topic are removed, by retention or by compaction" if is_held else ""
    if name == UNREADABLE:
        logger.error(
            "The configuration of topic %s cannot be read: %s. Set it anew with kafka-configs --alter --entity-type "
            "topics --entity-name %s, and name %s%s",
            topic,
            fault,
            topic,
            " and ".join(REPAIR_KEYS),
            held,
        )
        return
    logger.error(
        "The configuration %s of topic %s is not in force: %s. Correct or delete it with kafka-configs --alter "
        "--entity-type topics --entity-name %s%s",
        name,
        topic,
        fault,
        topic,
        held,
    )
