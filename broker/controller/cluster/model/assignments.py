"""Change the assignment of a partition by a reassignment (Kafka: `ReplicaAssignment`).

While a partition is reassigned, `replicas` has the target first, then what is to be removed. The origin and the target
follow from it, so that a controller that takes over needs to know nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from broker.metadata.znodes.topics import Assignment

NONE = Assignment(())
"""The assignment of a partition that does not exist."""


def origin(assignment: Assignment) -> tuple[int, ...]:
    """Return the replicas before the reassignment in progress."""
    return _without(assignment.replicas, assignment.adding)


def target(assignment: Assignment) -> tuple[int, ...]:
    """Return the replicas after the reassignment in progress."""
    return _without(assignment.replicas, assignment.removing)


def is_being_reassigned(assignment: Assignment) -> bool:
    """Return whether a reassignment is in progress."""
    return bool(assignment.adding or assignment.removing)


def reassign_to(assignment: Assignment, replicas: Sequence[int]) -> Assignment:
    """Return the assignment while the partition moves to `replicas`.

    A reassignment that is in progress is replaced: the new one begins from the same origin.
    """
    before = origin(assignment)
    full = tuple(dict.fromkeys([*replicas, *before]))
    return Assignment(full, _without(full, before), _without(full, replicas))


def without(assignment: Assignment, broker_id: int) -> Assignment:
    """Return the assignment without one replica."""
    gone = (broker_id,)
    return Assignment(
        _without(assignment.replicas, gone), _without(assignment.adding, gone), _without(assignment.removing, gone)
    )


def _without(replicas: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    return tuple(broker_id for broker_id in replicas if broker_id not in gone)
