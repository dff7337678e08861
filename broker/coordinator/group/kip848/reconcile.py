"""One step of a member towards its target assignment (KIP-848, "Reconciliation").

A member gives partitions back before it gets others: while it still owns partitions outside of its target, it stays in
its epoch (UNREVOKED_PARTITIONS). Then it goes to the target's epoch and gets the free partitions of its target. If
another member still owns some of them, it waits for these (UNRELEASED_PARTITIONS) and keeps working meanwhile. So no
partition ever has two owners. This is Kafka's `CurrentAssignmentBuilder`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from broker.coordinator.group.kip848.model import Assignment, Member, MemberState
from kafkalog.protocol.errors import FencedMemberEpochError

IsOwned = Callable[[UUID, int], bool]
"""Returns whether some member owns a partition, or has not given it back yet."""


def next_step(
    member: Member, target_epoch: int, target: Assignment, owned: Assignment | None, is_owned: IsOwned
) -> Member:
    """Return the member after one step, or unchanged if it must wait or has reached its target.

    Args:
        owned: the partitions that the member says it owns, or None if it does not say.

    Raises:
        FencedMemberEpochError: a newer release left the member in a state unknown here; it must join again.
    """
    if member.state is MemberState.STABLE:
        return (
            member
            if member.epoch == target_epoch
            else _step(member, member.epoch, target_epoch, target, owned, is_owned)
        )
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _owns_any(owned, member.pending_revocation):
            return member
        # The step ends in the target's epoch, or in another revocation, one epoch on.
        return _step(member, member.epoch + 1, target_epoch, target, owned, is_owned)
    if member.state is MemberState.UNRELEASED_PARTITIONS:
        return _step(member, member.epoch, target_epoch, target, owned, is_owned)
    if owned is None or owned:
        raise FencedMemberEpochError(
            "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin."
        )
    return _step(member, target_epoch, target_epoch, target, owned, is_owned)


def _step(
    member: Member, epoch: int, target_epoch: int, target: Assignment, owned: Assignment | None, is_owned: IsOwned
) -> Member:
    kept: dict[UUID, frozenset[int]] = {}
    revoked: dict[UUID, frozenset[int]] = {}
    gained: dict[UUID, frozenset[int]] = {}
    unreleased = False
    for topic_id in target.keys() | member.assigned.keys():
        wanted = target.get(topic_id, frozenset())
        present = member.assigned.get(topic_id, frozenset())
        missing = wanted - present
        free = frozenset(partition for partition in missing if not is_owned(topic_id, partition))
        unreleased = unreleased or len(free) < len(missing)
        if present & wanted:
            kept[topic_id] = present & wanted
        if present - wanted:
            revoked[topic_id] = present - wanted
        if free:
            gained[topic_id] = free
    if revoked and _owns_any(owned, revoked):
        return replace(
            member,
            state=MemberState.UNREVOKED_PARTITIONS,
            epoch=epoch,
            previous_epoch=member.epoch,
            assigned=kept,
            pending_revocation=revoked,
        )
    return replace(
        member,
        state=MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE,
        epoch=target_epoch,
        previous_epoch=member.epoch,
        assigned={
            topic_id: kept.get(topic_id, frozenset()) | gained.get(topic_id, frozenset())
            for topic_id in kept.keys() | gained.keys()
        },
        pending_revocation={},
    )


def _owns_any(owned: Assignment | None, partitions: Assignment) -> bool:
    """Return whether the member may own one of these, by what it says."""
    if owned is None:
        return True
    return any(not owned.get(topic_id, frozenset()).isdisjoint(some) for topic_id, some in partitions.items())
