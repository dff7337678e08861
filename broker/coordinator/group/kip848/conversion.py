"""Groups that change their protocol while they have members (KIP-848, `group.consumer.migration.policy`).

A classic group becomes one of the consumer protocol when the first member of that protocol joins; it becomes classic
again when the last such member is gone. Assignments stay, and a rebalance of the new kind follows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from broker.coordinator.group.classic.classic_group import ClassicGroup, ClassicSettings
from broker.coordinator.group.classic.member import Member as ClassicMember
from broker.coordinator.group.classic.requests import subscription_bytes
from broker.coordinator.group.kip848.config import ConsumerGroupConfig
from broker.coordinator.group.kip848.context import Timer, TimerKind, Topics
from broker.coordinator.group.kip848.formats import embedded, group_records
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.kip848.model import NO_PARTITIONS, Assignment, ClassicMetadata, Member
from broker.coordinator.group.membership import Moment
from kafkalog.protocol.embedded.consumer import PROTOCOL_TYPE, ConsumerSubscription, version_of
from kafkalog.protocol.errors import GroupIdNotFoundError
from kafkalog.protocol.primitives import ProtocolError, TooManyEntriesError


def can_upgrade(classic: ClassicGroup, config: ConsumerGroupConfig) -> bool:
    """Return whether a classic group with members may become one of the consumer protocol."""
    return (
        config.migration_policy.allows_upgrade
        and classic.protocol_type == PROTOCOL_TYPE
        and len(classic.members) <= config.max_size
    )


def least_stored(classic: ClassicGroup) -> int:
    """Return how many bytes the records of the group that a classic group becomes have at least."""
    return sum(subscription_bytes(member.protocols) for member in classic.members)


def upgraded(classic: ClassicGroup, topics: Topics) -> tuple[list[GroupRecord], list[Timer]]:
    """Return the records of the group that a classic group becomes, and its members' timers.

    Raises:
        GroupIdNotFoundError: a member's subscription or assignment cannot be read, or all have too many entries.
    """
    try:
        members = _consumer_members(classic, topics)
    except TooManyEntriesError as error:
        raise GroupIdNotFoundError(
            f"Cannot upgrade the classic group {classic.group_id} to consumer group because its members name more than "
            f"{embedded.MOST_ENTRIES} topics and partitions."
        ) from error
    except ProtocolError as error:
        raise GroupIdNotFoundError(
            f"Cannot upgrade the classic group {classic.group_id} to consumer group because the embedded consumer "
            f"protocol is malformed."
        ) from error
    group_id, epoch = classic.group_id, classic.generation
    records = [group_records.member_metadata(group_id, member) for member in members.values()]
    records.append(group_records.group_epoch(group_id, epoch))
    records += [
        group_records.target_assignment(group_id, member_id, member.assigned) for member_id, member in members.items()
    ]
    records.append(group_records.target_epoch(group_id, epoch))
    records += [group_records.current_assignment(group_id, member) for member in members.values()]
    timers = [
        Timer(TimerKind.SESSION, member_id, member.classic.session_timeout_ms)
        for member_id, member in members.items()
        if member.classic is not None
    ]
    return records, timers


def _consumer_members(classic: ClassicGroup, topics: Topics) -> dict[str, Member]:
    """Return the members by their ids.

    Raises:
        ProtocolError: a member's subscription or assignment cannot be read.
        TooManyEntriesError: all of them together have too many entries.
    """
    members = {}
    left = embedded.MOST_ENTRIES
    for member in classic.members:
        # The group has no assignor before its first generation, and in a rebalance a member may have given it up.
        chosen = (metadata for name, metadata in member.protocols if name == classic.protocol_name)
        metadata = next(chosen, member.protocols[0][1])
        subscription = embedded.decode_subscription(metadata, left)
        left = max(left - len(subscription.topics) - embedded.count(subscription.owned_partitions), 0)
        assigned = embedded.decode_assignment(member.assignment, left)
        left = max(left - embedded.count(assigned), 0)
        members[member.member_id] = _consumer_member(classic, member, subscription, embedded.by_id(assigned, topics))
    return members


def _consumer_member(
    classic: ClassicGroup, member: ClassicMember, subscription: ConsumerSubscription, assigned: Assignment
) -> Member:
    return Member(
        member.member_id,
        epoch=classic.generation,
        previous_epoch=classic.generation,
        instance_id=member.instance_id,
        rack_id=subscription.rack_id,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(subscription.topics),
        assigned=assigned,
        classic=ClassicMetadata(member.session_timeout_ms, member.protocols),
    )


def can_downgrade(group: ConsumerGroup, leaving: Collection[str], config: ConsumerGroupConfig) -> bool:
    """Return whether a group becomes classic when the members `leaving` are gone."""
    return (
        config.migration_policy.allows_downgrade
        and 0 < len(group.members) - len(leaving) <= config.classic_max_size
        and any(group.members[member_id].classic is None for member_id in leaving)
        and group.all_use_classic_except(leaving)
    )


def downgraded(
    group: ConsumerGroup,
    leaving: Collection[str],
    topics: Topics,
    settings: ClassicSettings,
    new_member_id: Callable[[str], str],
    now: Moment,
) -> ClassicGroup:
    """Return the classic group that a group becomes without `leaving`: stable, its generation is the group epoch."""
    members = []
    for member_id, member in group.members.items():
        if member_id in leaving or member.classic is None:
            continue
        version = version_of(member.classic.protocols[0][1])
        target = group.target.get(member_id, NO_PARTITIONS)
        members.append(
            ClassicMember(
                member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.classic.session_timeout_ms,
                member.rebalance_timeout_ms,
                PROTOCOL_TYPE,
                member.classic.protocols,
                embedded.encode_assignment(target, version, topics),
            )
        )
    return ClassicGroup.of_consumers(group.group_id, group.group_epoch, members, settings, new_member_id, now)
