"""Decide the id of a broker, where both its configuration and its log directories may name one."""

from __future__ import annotations

from broker.config.definition import ConfigError

NO_ID = -1
"""The `broker.id` of a configuration that names none."""


def known_broker_id(configured: int, stored: int | None) -> int | None:
    """Return the id of a broker, or None if neither its configuration nor a log directory names one.

    Args:
        configured: `broker.id`; NO_ID if it is not set.
        stored: the id with which log directories are marked; None if they are new.

    Raises:
        ConfigError: the two are different.
    """
    if configured == NO_ID:
        return stored
    if stored is not None and stored != configured:
        raise ConfigError(
            f"Configured broker.id {configured} doesn't match stored broker.id {stored} in meta.properties. "
            "If the directories belong to another broker, set log.dirs; if the id was changed on purpose, set it "
            "in meta.properties too."
        )
    return configured
