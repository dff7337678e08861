"""The assignor `range`: each subscriber of a topic gets a run of neighbouring partitions.

Members are in a fixed order, so that they keep their runs when they return: static members first, by instance id; the
others by member id. If all subscribe to the same topics with equally many partitions, a member gets the same numbers of
each: records of one key in two topics reach one member. This is Kafka's `RangeAssignor`.
"""

from __future__ import annotations

from itertools import chain
from uuid import UUID

from broker.coordinator.group.kip848.assignors.spec import GroupSpec
from broker.coordinator.group.kip848.model import Assignment


def assign_range(group: GroupSpec) -> dict[str, Assignment]:
    """Assign runs of neighbouring partitions.

    Raises:
        AssignorError: a member is subscribed to a topic that does not exist.
    """
    members = sorted(group.members, key=lambda member_id: _order(group, member_id))
    places = {member_id: place for place, member_id in enumerate(members)}
    # Most members have the same subscription: look at its topics once.
    alike: dict[frozenset[UUID], list[str]] = {}
    for member_id in members:
        alike.setdefault(group.members[member_id].topics, []).append(member_id)
    subscribers: dict[UUID, list[list[str]]] = {}
    for topics, some in alike.items():
        for topic_id in topics:
            subscribers.setdefault(topic_id, []).append(some)
    result: dict[str, dict[UUID, frozenset[int]]] = {member_id: {} for member_id in members}
    for topic_id, lists in subscribers.items():
        subscribed = lists[0] if len(lists) == 1 else sorted(chain(*lists), key=places.__getitem__)
        least, extra = divmod(group.count(topic_id), len(subscribed))
        start = 0
        # If there are fewer partitions than members, only the first ones get any.
        for place, member_id in enumerate(subscribed if least else subscribed[:extra]):
            end = start + least + (place < extra)
            result[member_id][topic_id] = frozenset(range(start, end))
            start = end
    return dict(result)


def _order(group: GroupSpec, member_id: str) -> tuple[bool, str]:
    instance_id = group.members[member_id].instance_id
    return (True, member_id) if instance_id is None else (False, instance_id)
