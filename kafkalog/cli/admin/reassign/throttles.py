"""Throttles of a reassignment (KIP-73): which replicas they concern, and the configurations that set them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.client.types import TopicPartition

if TYPE_CHECKING:
    from kafkalog.client.admin import Admin, ConfigChange, ConfigResource

LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
"""The configurations of topics, with the replicas that are throttled."""
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
ALTER_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
"""The configurations of brokers, in bytes a second."""

REPLICAS, RATES = (LEADER_REPLICAS, FOLLOWER_REPLICAS), (LEADER_RATE, FOLLOWER_RATE, ALTER_DIRS_RATE)

Configs = Mapping["ConfigResource", Mapping[str, str | None]]
"""The throttles of topics and brokers; None where one has no value of its own."""
Moves = Mapping[TopicPartition, tuple[Sequence[int], Sequence[int]]]
"""The present and the wanted replicas of each partition."""


def throttled(moves: Moves) -> dict[str, dict[str, str]]:
    """Return the configurations of each topic: sources on the leaders' side, destinations on the followers'.

    A partition that has all wanted replicas already is throttled nowhere.
    """
    leaders: dict[str, list[str]] = defaultdict(list)
    followers: dict[str, list[str]] = defaultdict(list)
    for tp, (present, wanted) in sorted(moves.items()):
        new = [broker for broker in wanted if broker not in present]
        if new:
            leaders[tp.topic] += [f"{tp.partition}:{broker}" for broker in sorted(present)]
            followers[tp.topic] += [f"{tp.partition}:{broker}" for broker in sorted(new)]
    return {
        topic: {LEADER_REPLICAS: ",".join(leaders[topic]), FOLLOWER_REPLICAS: ",".join(followers[topic])}
        for topic in leaders
    }


def involved(moves: Moves) -> set[int]:
    """Return the brokers that give or get replicas."""
    return {broker for present, wanted in moves.values() for broker in (*present, *wanted)}


def of(admin: Admin, topics: Iterable[str], brokers: Iterable[int]) -> Configs:
    """Return the throttles that topics and brokers have of their own."""
    from kafkalog.client.admin import ConfigResource, ConfigSource

    wanted: dict[ConfigResource, tuple[str, ...]] = {ConfigResource.topic(topic): REPLICAS for topic in sorted(topics)}
    wanted |= {ConfigResource.broker(broker): RATES for broker in sorted(brokers)}
    found: dict[ConfigResource, dict[str, str | None]] = {}
    for resource, names in wanted.items():
        entries = admin.describe_configs([resource], names)[resource].values()
        own = {each.name: each.value for each in entries if each.source in (ConfigSource.TOPIC, ConfigSource.BROKER)}
        found[resource] = {name: own.get(name) for name in names}
    return found


def restore(admin: Admin, earlier: Configs) -> None:
    """Set throttles as `of` has found them."""
    from kafkalog.client.admin import ConfigChange

    for resource, values in earlier.items():
        kept = [ConfigChange(name, value) for name, value in values.items() if value is not None]
        gone = _deletions(*(name for name, value in values.items() if value is None))
        admin.incremental_alter_configs({resource: [*kept, *gone]})


def set_throttles(admin: Admin, moves: Moves, rate: int, brokers: Iterable[int]) -> None:
    """Throttle the moves to `rate` bytes a second on each of the brokers."""
    from kafkalog.client.admin import ConfigChange, ConfigResource

    admin.incremental_alter_configs(
        {
            ConfigResource.topic(topic): [ConfigChange(key, value) for key, value in config.items()]
            for topic, config in throttled(moves).items()
        }
    )
    set_rates(admin, brokers, {LEADER_RATE: rate, FOLLOWER_RATE: rate})


def set_rates(admin: Admin, brokers: Iterable[int], rates: Mapping[str, int]) -> None:
    """Set configurations of brokers."""
    from kafkalog.client.admin import ConfigChange, ConfigResource

    for broker in sorted(brokers):
        admin.incremental_alter_configs(
            {ConfigResource.broker(broker): [ConfigChange(key, str(value)) for key, value in rates.items()]}
        )


def clear_throttles(admin: Admin, topics: Iterable[str], brokers: Iterable[int]) -> None:
    """Remove all throttles of topics and brokers."""
    from kafkalog.client.admin import ConfigResource

    for broker in sorted(brokers):
        admin.incremental_alter_configs({ConfigResource.broker(broker): _deletions(*RATES)})
    named = sorted(topics)
    if named:
        admin.incremental_alter_configs({ConfigResource.topic(topic): _deletions(*REPLICAS) for topic in named})


def _deletions(*keys: str) -> list[ConfigChange]:
    from kafkalog.client.admin import ConfigChange, ConfigOperation

    return [ConfigChange(key, None, ConfigOperation.DELETE) for key in keys]
