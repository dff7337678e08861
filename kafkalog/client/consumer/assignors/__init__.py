"""Assignors: they divide partitions among the members of a group, in the group's leader (KIP-0, KIP-54, KIP-429).

- `base`         the base class, and what an assignor gets and returns
- `range_`       consecutive partitions of each topic; `roundrobin` one after the other
- `sticky`       as balanced as possible with as few moves as possible, eager (`sticky`) or cooperative
                 (`cooperative-sticky`); `constrained` where all members want the same topics, `general` otherwise
- `java_order`   the order of Java's hash tables, which decides where the algorithms leave a choice
- `racks`        racks of members and replicas (KIP-881)

Every decision is that of Apache Kafka's assignor of the same name. So a group may have members of both kinds, whichever
of them leads it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkalog.client.consumer.assignors.base import Assignor, Layout, RebalanceProtocol
from kafkalog.client.consumer.assignors.range_ import RangeAssignor
from kafkalog.client.consumer.assignors.roundrobin import RoundRobinAssignor
from kafkalog.client.consumer.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from kafkalog.client.errors import ConfigError

__all__ = [
    "Assignor",
    "CooperativeStickyAssignor",
    "Layout",
    "RangeAssignor",
    "RebalanceProtocol",
    "RoundRobinAssignor",
    "StickyAssignor",
    "find_assignors",
]

BUILT_IN: tuple[type[Assignor], ...] = (
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
    CooperativeStickyAssignor,
)
_BY_NAME = {each.name: each for each in BUILT_IN} | {
    f"org.apache.kafka.clients.consumer.{each.__name__}": each for each in BUILT_IN
}


def find_assignors(given: Any) -> tuple[Assignor, ...]:
    """Find the assignors of `partition.assignment.strategy`: names, Kafka's class names, Assignor classes or objects.

    Raises:
        ConfigError: A value is anything else, two assignors have one name, or there is no assignor.
    """
    if isinstance(given, str):
        given = [word for word in (word.strip() for word in given.split(",")) if word]
    elif isinstance(given, Assignor | type) or not isinstance(given, Iterable):
        given = [given]
    found = tuple(map(_find, given))
    names = [each.name for each in found]
    if not names or len(set(names)) < len(names):
        raise ConfigError(f"partition.assignment.strategy: expected assignors of different names, got {names}")
    common_protocol(found)
    return found


def common_protocol(assignors: Iterable[Assignor]) -> RebalanceProtocol:
    """Return the rebalance protocol that all assignors support, rather cooperative than eager.

    Raises:
        ConfigError: There is none.
    """
    supported = [set(each.protocols) for each in assignors]
    common = set.intersection(*supported)
    if not common:
        raise ConfigError("partition.assignment.strategy: the assignors have no rebalance protocol in common")
    return max(common)


def _find(given: Any) -> Assignor:
    if isinstance(given, str):
        if given not in _BY_NAME:
            names = ", ".join(each.name for each in BUILT_IN)
            raise ConfigError(f"partition.assignment.strategy={given}: expected some of {names}, or an Assignor")
        given = _BY_NAME[given]
    if isinstance(given, type) and issubclass(given, Assignor):
        return given()
    if isinstance(given, Assignor):
        return given
    raise ConfigError(f"partition.assignment.strategy: {given!r} is no Assignor")
