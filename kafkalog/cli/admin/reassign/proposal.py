"""Proposes where the partitions of topics could be, over a list of brokers. Pure.

As few replicas move as an even load allows: a replica stays on a broker that is on the list, unless that broker has
more than its share. Then replicas are placed on the brokers with the fewest, in racks that have none of the partition
if there are. At last the preferred leaders are spread, which moves nothing. (Kafka's tool places all replicas anew.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from kafkalog.client.types import TopicPartition

Assignment = Mapping[TopicPartition, Sequence[int]]


def proposed(
    current: Assignment, brokers: Sequence[int], racks: Mapping[int, str | None]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return a placement of the partitions on `brokers`, with as many replicas as they have.

    Args:
        current: the present replicas of each partition, the preferred leader first.
        brokers: the brokers that replicas may be on.
        racks: the racks of brokers; a broker without one counts as a rack of its own.

    Raises:
        ValueError: A partition has more replicas than there are brokers.
    """
    wide = next((tp for tp, replicas in current.items() if len(replicas) > len(brokers)), None)
    if wide is not None:
        raise ValueError(f"{wide} has {len(current[wide])} replicas, more than the {len(brokers)} brokers of the list")
    ordered = sorted(brokers)
    share = -(-sum(map(len, current.values())) // len(ordered))
    load: Counter[int] = Counter()
    kept: dict[TopicPartition, list[int]] = {}
    for tp in sorted(current):
        kept[tp] = []
        for broker in current[tp]:
            if broker in ordered and load[broker] < share:
                load[broker] += 1
                kept[tp].append(broker)
    for tp, replicas in kept.items():
        while len(replicas) < len(current[tp]):
            used = {racks.get(broker) or broker for broker in replicas}
            chosen = min(
                (broker for broker in ordered if broker not in replicas),
                key=lambda broker: ((racks.get(broker) or broker) in used, load[broker], broker),
            )
            load[chosen] += 1
            replicas.append(chosen)
    return _led(kept)


def _led(placed: Mapping[TopicPartition, Sequence[int]]) -> dict[TopicPartition, tuple[int, ...]]:
    """Put a replica first in each partition, so that the preferred leaders are spread."""
    led: Counter[int] = Counter()
    found = {}
    # Those with the least choice first.
    for tp in sorted(placed, key=lambda tp: (len(placed[tp]), tp)):
        replicas = placed[tp]
        leader = min(replicas, key=lambda broker: (led[broker], list(replicas).index(broker)))
        led[leader] += 1
        found[tp] = (leader, *(broker for broker in replicas if broker != leader))
    return found
