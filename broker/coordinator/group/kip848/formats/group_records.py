"""Makes the records that a group writes (see `log_records`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from broker.coordinator.group.kip848.formats import log_records as log
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.model import Assignment, Member, ResolvedRegex, TopicMetadata, topic_partitions


def group_epoch(group_id: str, epoch: int) -> GroupRecord:
    return GroupRecord(log.GroupMetadata, log.GroupKey(group_id=group_id), log.GroupMetadata(epoch=epoch))


def subscription_metadata(group_id: str, topics: Mapping[str, TopicMetadata]) -> GroupRecord:
    """Return the record of the subscribed topics, as they are now (type 4)."""
    value = log.PartitionMetadata(
        topics=[
            log.SubscribedTopic(
                topic_id=topic.topic_id,
                topic_name=topic.name,
                num_partitions=topic.partitions,
                partition_metadata=[
                    log.PartitionRacks(partition=partition, racks=sorted(racks))
                    for partition, racks in sorted(topic.racks.items())
                ],
            )
            for _, topic in sorted(topics.items())
        ]
    )
    return GroupRecord(log.PartitionMetadata, log.GroupKey(group_id=group_id), value)


def member_metadata(group_id: str, member: Member) -> GroupRecord:
    """Return the record of a member (type 5)."""
    classic = None
    if member.classic is not None:
        classic = log.ClassicMember(
            session_timeout_ms=member.classic.session_timeout_ms,
            supported_protocols=[
                log.ClassicProtocol(name=name, metadata=metadata) for name, metadata in member.classic.protocols
            ],
        )
    value = log.MemberMetadata(
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=member.server_assignor,
        classic_member_metadata=classic,
    )
    return GroupRecord(log.MemberMetadata, _member_key(group_id, member.member_id), value)


def target_epoch(group_id: str, epoch: int) -> GroupRecord:
    """Return the record of the epoch of the target assignment (type 6)."""
    value = log.TargetAssignmentMetadata(assignment_epoch=epoch)
    return GroupRecord(log.TargetAssignmentMetadata, log.GroupKey(group_id=group_id), value)


def target_assignment(group_id: str, member_id: str, assignment: Assignment) -> GroupRecord:
    """Return the record of a member's target assignment (type 7)."""
    value = log.TargetAssignment(topic_partitions=topic_partitions(assignment))
    return GroupRecord(log.TargetAssignment, _member_key(group_id, member_id), value)


def current_assignment(group_id: str, member: Member) -> GroupRecord:
    """Return the record of a member's current assignment (type 8)."""
    value = log.CurrentAssignment(
        member_epoch=member.epoch,
        previous_member_epoch=member.previous_epoch,
        state=member.state,
        assigned_partitions=topic_partitions(member.assigned),
        partitions_pending_revocation=topic_partitions(member.pending_revocation),
    )
    return GroupRecord(log.CurrentAssignment, _member_key(group_id, member.member_id), value)


def resolved_regex(group_id: str, regex: str, resolved: ResolvedRegex) -> GroupRecord:
    """Return the record of a regular expression's matches (type 16)."""
    value = log.RegularExpression(
        topics=sorted(resolved.topics), version=resolved.version, timestamp=resolved.timestamp_ms
    )
    return GroupRecord(log.RegularExpression, log.RegexKey(group_id=group_id, regular_expression=regex), value)


def regex_tombstone(group_id: str, regex: str) -> GroupRecord:
    return GroupRecord(log.RegularExpression, log.RegexKey(group_id=group_id, regular_expression=regex), None)


def member_tombstones(group_id: str, member_id: str) -> list[GroupRecord]:
    """Return the tombstones of all records of a member, in Apache Kafka's order."""
    key = _member_key(group_id, member_id)
    return [
        GroupRecord(log.CurrentAssignment, key, None),
        GroupRecord(log.TargetAssignment, key, None),
        GroupRecord(log.MemberMetadata, key, None),
    ]


def group_tombstones(group_id: str, member_ids: Iterable[str], regexes: Iterable[str]) -> list[GroupRecord]:
    """Return the tombstones of all records of a group, in Apache Kafka's order."""
    members = list(member_ids)
    key = log.GroupKey(group_id=group_id)
    records = [GroupRecord(log.CurrentAssignment, _member_key(group_id, member), None) for member in members]
    records += [GroupRecord(log.TargetAssignment, _member_key(group_id, member), None) for member in members]
    records.append(GroupRecord(log.TargetAssignmentMetadata, key, None))
    records += [GroupRecord(log.MemberMetadata, _member_key(group_id, member), None) for member in members]
    records += [regex_tombstone(group_id, regex) for regex in regexes]
    records.append(GroupRecord(log.PartitionMetadata, key, None))
    records.append(GroupRecord(log.GroupMetadata, key, None))
    return records


def _member_key(group_id: str, member_id: str) -> log.MemberKey:
    return log.MemberKey(group_id=group_id, member_id=member_id)
