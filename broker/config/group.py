"""The keys of one group of the consumer protocol (KIP-848), such as `consumer.session.timeout.ms`.

The names are those of Apache Kafka's group configuration. The broker's `group.consumer.*` keys hold the defaults and
the limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.config.coordinators import CONSUMER_LIMITS
from broker.config.definition import ConfigDefinition, ConfigError, ConfigKey, Type, Value, at_least

GROUP_CONFIG = ConfigDefinition(
    [
        ConfigKey(
            "consumer.heartbeat.interval.ms", Type.INT, 5000,
            "The heartbeat interval of the group's members.",
            at_least(1), synonyms=("group.consumer.heartbeat.interval.ms",),
        ),
        ConfigKey(
            "consumer.session.timeout.ms", Type.INT, 45_000,
            "A member that sends no heartbeat for this long is removed from the group.",
            at_least(1), synonyms=("group.consumer.session.timeout.ms",),
        ),
    ]
)  # fmt: skip


def parse_group_config(texts: Mapping[str, str | None], broker: Callable[[str], Value]) -> dict[str, Value]:
    """Parse the overrides of a group.

    Args:
        texts: the overrides as text, by key.
        broker: returns the value of a broker key.

    Raises:
        ConfigError: a key is unknown, or a value does not fit it or is outside the broker's limits.
    """
    values: dict[str, Value] = {}
    for name, text in texts.items():
        key = GROUP_CONFIG.get(name)
        if key is None:
            raise ConfigError(f"Unknown group config name: {name}")
        if text is None:
            raise ConfigError(f"Null value not supported for group configs: {name}")
        values[name] = key.parse(text)
        least, most = CONSUMER_LIMITS[key.synonyms[0]]
        if values[name] < broker(least):
            raise ConfigError(f"{name} must be greater than or equals to {least}")
        if values[name] > broker(most):
            raise ConfigError(f"{name} must be less than or equals to {most}")
    return values
