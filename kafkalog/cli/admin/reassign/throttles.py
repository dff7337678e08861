"""Throttles of a reassignment (KIP-73): which replicas they concern, and the configurations that set them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkalog.client.types import TopicPartition

if TYPE_CHECKING:
    from kafkalog.client.admin import Admin, ConfigChange

LEADER_REPLICAS, FOLLOWER_REPLICAS = "leader.replication.throttled.replicas", "follower.replication.throttled.replicas"
"""The configurations of topics, with the replicas that are throttled."""
LEADER_RATE, FOLLOWER_RATE = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
ALTER_DIRS_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
"""The configurations of brokers, in bytes a second."""

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


def set_throttles(admin: Admin, moves: Moves, rate: int, *, brokers: Iterable[int], alive: Iterable[int]) -> None:
    """Throttle the moves to `rate` bytes a second a broker; brokers that are not alive are left out."""
    from kafkalog.client.admin import ConfigChange, ConfigResource

    admin.incremental_alter_configs(
        {
            ConfigResource.topic(topic): [ConfigChange(key, value) for key, value in config.items()]
            for topic, config in throttled(moves).items()
        }
    )
    set_rates(admin, set(brokers) & set(alive), {LEADER_RATE: rate, FOLLOWER_RATE: rate})


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
        admin.incremental_alter_configs(
            {ConfigResource.broker(broker): _deletions(LEADER_RATE, FOLLOWER_RATE, ALTER_DIRS_RATE)}
        )
    named = sorted(topics)
    if named:
        admin.incremental_alter_configs(
            {ConfigResource.topic(topic): _deletions(LEADER_REPLICAS, FOLLOWER_REPLICAS) for topic in named}
        )


def _deletions(*keys: str) -> list[ConfigChange]:
    from kafkalog.client.admin import ConfigChange, ConfigOperation

    return [ConfigChange(key, None, ConfigOperation.DELETE) for key in keys]
