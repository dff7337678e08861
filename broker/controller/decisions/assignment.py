"""Assigns replicas to brokers. Pure.

Replicas are placed round robin. Leaders go round the brokers from a start index. The followers of a partition are
placed after its leader, at a distance that grows by one with each round, so that the load of a lost broker is spread
evenly over the others.

Brokers with racks are taken from one rack after the other, and a partition has no second replica in a rack before it
has one in each (KIP-36).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import chain, zip_longest

from kafkalog.protocol.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
)


def assign_replicas(
    brokers: Sequence[int],
    partitions: int,
    replication_factor: int,
    start: int,
    first_partition: int = 0,
    racks: Mapping[int, str | None] | None = None,
) -> list[tuple[int, ...]]:
    """Assign the replicas of `partitions` new partitions, preferred leader first.

    Args:
        brokers: the live brokers.
        partitions: how many partitions are new.
        replication_factor: the number of replicas of each.
        start: where in the round of the brokers the leaders begin.
        first_partition: the index of the first new partition.
        racks: the racks of the brokers. If one of them has none, racks are disregarded.

    Raises:
        InvalidPartitionsError: `partitions` is not positive.
        InvalidReplicationFactorError: the factor is not positive or larger than the number of brokers.
    """
    if partitions <= 0:
        raise InvalidPartitionsError("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise InvalidReplicationFactorError("Replication factor must be larger than 0.")
    if replication_factor > len(brokers):
        raise InvalidReplicationFactorError(
            f"Replication factor: {replication_factor} larger than available brokers: {len(brokers)}."
        )
    known = {broker: rack for broker in brokers if (rack := (racks or {}).get(broker)) is not None}
    if len(known) == len(brokers) and len(set(known.values())) > 1:
        return _over_racks(known, partitions, replication_factor, start, first_partition)
    ordered = sorted(brokers)
    count = len(ordered)
    result = []
    for partition in range(first_partition, first_partition + partitions):
        shift = start + partition // count
        leader = (partition + start) % count
        followers = [
            ordered[(leader + 1 + (shift + position) % (count - 1)) % count]
            for position in range(replication_factor - 1)
        ]
        result.append((ordered[leader], *followers))
    return result


def _over_racks(
    racks: Mapping[int, str], partitions: int, replication_factor: int, start: int, first_partition: int
) -> list[tuple[int, ...]]:
    in_rack: dict[str, list[int]] = {}
    for broker in sorted(racks):
        in_rack.setdefault(racks[broker], []).append(broker)
    turns = zip_longest(*(in_rack[rack] for rack in sorted(in_rack)))
    arranged = [broker for broker in chain.from_iterable(turns) if broker is not None]
    count = len(arranged)
    result = []
    shift = start
    for partition in range(first_partition, first_partition + partitions):
        if partition and partition % count == 0:
            shift += 1
        leader = (partition + start) % count
        replicas = [arranged[leader]]
        used = {racks[arranged[leader]]}
        step = 0
        while len(replicas) < replication_factor:
            distance = 1 + (shift * len(in_rack) + step) % (count - 1)
            candidate = arranged[(leader + distance) % count]
            step += 1
            if candidate not in replicas and (racks[candidate] not in used or len(used) == len(in_rack)):
                replicas.append(candidate)
                used.add(racks[candidate])
        result.append(tuple(replicas))
    return result


MOST_LOOKED_AT = 1000


def looked_at(replicas: Sequence[int], brokers: Collection[int]) -> Sequence[int]:
    """Return the beginning of a list of replicas, long enough to refuse it.

    Of more replicas than there are brokers one comes twice or is unknown. A client may name millions.
    """
    return replicas[: max(len(brokers) + 1, MOST_LOOKED_AT)]


def check_manual(assignments: dict[int, Sequence[int]], brokers: Sequence[int]) -> list[tuple[int, ...]]:
    """Check a manual assignment, and return it in the order of partitions.

    Raises:
        InvalidReplicaAssignmentError: the partitions are not 0..n-1, a partition has no replicas or one twice, the
            replication factors differ, or a broker is unknown.
    """
    if sorted(assignments) != list(range(len(assignments))):
        raise InvalidReplicaAssignmentError("partitions should be a consecutive 0-based integer sequence")
    factors = {len(replicas) for replicas in assignments.values()}
    if len(factors) != 1 or 0 in factors:
        raise InvalidReplicaAssignmentError("All partitions should have the same number of replicas")
    known = set(brokers)
    for partition, replicas in assignments.items():
        some = looked_at(replicas, known)
        if len(set(some)) != len(some):
            raise InvalidReplicaAssignmentError(f"Duplicate replica assignment found for partition {partition}")
        unknown = sorted(set(some) - known)
        if unknown:
            raise InvalidReplicaAssignmentError(f"Unknown broker(s) in replica assignment: {unknown}.")
    return [tuple(assignments[partition]) for partition in range(len(assignments))]
