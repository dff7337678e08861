"""Keys of a group (``consumer.session.timeout.ms``, …), for one group of the consumer protocol (KIP-848).

Names are those of Apache Kafka's group configuration; the broker's ``group.consumer.*`` keys hold the defaults and the
limits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from broker.config.coordinators import CONSUMER_LIMITS
from broker.config.definition import ConfigDefinition, ConfigError, ConfigKey, Type, Value, at_least

GROUP_CONFIG = ConfigDefinition(
    [
        ConfigKey(
            "consumer.heartbeat.interval.ms", Type.INT, 5000,
            "Heartbeat interval given to the members of the group.",
            at_least(1), synonyms=("group.consumer.heartbeat.interval.ms",),
        ),
        ConfigKey(
            "consumer.session.timeout.ms", Type.INT, 45_000,
            "After how long without a heartbeat a member of the group is taken for dead.",
            at_least(1), synonyms=("group.consumer.session.timeout.ms",),
        ),
    ]
)  # fmt: skip


def parse_group_config(texts: Mapping[str, str | None], broker: Callable[[str], Value]) -> dict[str, Value]:
    """The overrides of a group as values.

    Args:
        broker: the value of a broker's key.

    Raises:
        ConfigError: a key is unknown, or a value does not fit it or is beyond the broker's limits.
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
