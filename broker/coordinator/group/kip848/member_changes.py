"""Members of a consumer group join and leave: who may join under which id, and what remains of one that left.

Checks, their order and their texts are Apache Kafka's (`GroupMetadataManager`).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from broker.coordinator.batch_sizes import RECORD_BYTES
from broker.coordinator.group.kip848.advance import dropped_regexes, refresh
from broker.coordinator.group.kip848.context import Context, Timer, TimerKind
from broker.coordinator.group.kip848.formats import group_records
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.kip848.model import NO_PARTITIONS, STATIC_LEAVE_EPOCH, Assignment, Member, MemberState
from kafkalog.protocol.errors import (
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupMaxSizeReachedError,
    UnknownMemberIdError,
    UnreleasedInstanceIdError,
)

_ABANDON = "The member must abandon all its partitions and rejoin."


def check_size(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    """Check that there may be one more member.

    Raises:
        GroupMaxSizeReachedError: one more is too many.
    """
    if len(group.members) >= max_size and member_id not in group.members:
        raise GroupMaxSizeReachedError(f"The consumer group has reached its maximum capacity of {max_size} members.")


def known_member(group: ConsumerGroup, member_id: str) -> Member:
    """Return a member.

    Raises:
        UnknownMemberIdError: none has this id.
    """
    member = group.members.get(member_id)
    if member is None:
        raise UnknownMemberIdError(f"Member {member_id} is not a member of group {group.group_id}.")
    return member


def known_static_member(group: ConsumerGroup, member_id: str, instance_id: str) -> Member:
    """Return the member of an instance id, if the request's member id is its own.

    Raises:
        UnknownMemberIdError: there is no member of that instance id.
        FencedInstanceIdError: the member of that instance id has another member id.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise UnknownMemberIdError(f"Instance id {instance_id} is unknown.")
    if member.member_id != member_id:
        raise FencedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} was fenced by member {member.member_id}."
        )
    return member


def check_epoch(member: Member, epoch: int, owned: Assignment | None) -> None:
    """Check that a heartbeat's epoch is the member's.

    The previous epoch is accepted as well if the member owns only partitions that it is assigned: then the response
    with the newer epoch was lost.

    Raises:
        FencedMemberEpochError: it is another one.
    """
    if epoch == member.epoch:
        return
    if epoch > member.epoch:
        relation = "greater"
    elif epoch == member.previous_epoch and owned is not None and _is_within(owned, member.assigned):
        return
    else:
        relation = "smaller"
    raise FencedMemberEpochError(
        f"The consumer group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({member.epoch}). {_ABANDON}"
    )


def static_joiner(group: ConsumerGroup, member_id: str, instance_id: str, records: list[GroupRecord]) -> Member:
    """Return a static consumer that joins: a new member, or its predecessor with its partitions under a new id."""
    existing = group.static_member(instance_id)
    if existing is None:
        return group.members.get(member_id) or Member(member_id)
    successor = replace(existing, member_id=member_id, epoch=0, previous_epoch=0)
    records += group_records.member_tombstones(group.group_id, existing.member_id)
    records.append(group_records.member_metadata(group.group_id, successor))
    target = group.target.get(existing.member_id, NO_PARTITIONS)
    records.append(group_records.target_assignment(group.group_id, member_id, target))
    records.append(group_records.current_assignment(group.group_id, successor))
    return successor


def check_released(group: ConsumerGroup, member_id: str, instance_id: str) -> None:
    """Check that no other member has the instance id, or that it has left.

    Raises:
        UnreleasedInstanceIdError: another member has the instance id, and has not left.
    """
    existing = group.static_member(instance_id)
    if existing is not None and existing.epoch != STATIC_LEAVE_EPOCH:
        raise UnreleasedInstanceIdError(
            f"Static member {member_id} with instance id {instance_id} cannot join the group because the instance id "
            f"is owned by {existing.member_id} member."
        )


def leave_for_a_while(group: ConsumerGroup, member: Member) -> list[GroupRecord]:
    """Let a static member keep its partitions while it is away; those that it had to give back become free."""
    away = replace(member, epoch=STATIC_LEAVE_EPOCH, pending_revocation=NO_PARTITIONS)
    return [group_records.current_assignment(group.group_id, away)]


def remove(group: ConsumerGroup, members: Collection[Member], context: Context) -> list[GroupRecord]:
    """Remove members and all their state; the group goes to its next epoch."""
    records: list[GroupRecord] = []
    for member in members:
        records += group_records.member_tombstones(group.group_id, member.member_id)
    gone = {member.member_id for member in members}
    left = {member_id: member for member_id, member in group.members.items() if member_id not in gone}
    for regex in dropped_regexes(group, left.values()):
        records.append(group_records.regex_tombstone(group.group_id, regex))
    refresh(group, left, group.regexes, True, context, records)
    return records


def removal_bytes(group: ConsumerGroup, member: Member) -> int:
    """Return about how many bytes the records of a member's removal have."""
    record = RECORD_BYTES + len(group.group_id.encode())
    tombstones = 3 * (record + len(member.member_id.encode()))
    return tombstones + (record + len(member.topic_regex.encode()) if member.topic_regex else 0)


def stop_timers(member_id: str) -> list[Timer]:
    return [Timer(kind, member_id, None) for kind in TimerKind]


def timers_after_loading(group: ConsumerGroup, session_timeout_ms: int) -> list[Timer]:
    """Return the timers of the members of a group that was just loaded: their timeouts begin now."""
    timers = []
    for member in group.members.values():
        session = session_timeout_ms if member.classic is None else member.classic.session_timeout_ms
        timers.append(Timer(TimerKind.SESSION, member.member_id, session))
        if member.state is MemberState.UNREVOKED_PARTITIONS and member.classic is None:
            timers.append(Timer(TimerKind.REBALANCE, member.member_id, member.rebalance_timeout_ms, epoch=member.epoch))
    return timers


def _is_within(owned: Assignment, assigned: Assignment) -> bool:
    return all(partitions <= assigned.get(topic_id, frozenset()) for topic_id, partitions in owned.items())
