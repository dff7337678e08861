"""A group of the consumer protocol: the state that the records of its log make up, and nothing else.

Compaction may remove earlier records, so none is required before another: a record of an unknown member creates it, and
a tombstone of something unknown does nothing. What only this broker knows (`seen_version`) begins anew when it loads
the group.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from broker.coordinator.group.kip848.formats import log_records as log
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.model import (
    LEAVE_EPOCH,
    NO_PARTITIONS,
    Assignment,
    ClassicMetadata,
    Member,
    MemberState,
    ResolvedRegex,
    TopicMetadata,
    assignment_of,
)

EMPTY, ASSIGNING, RECONCILING, STABLE, DEAD = "Empty", "Assigning", "Reconciling", "Stable", "Dead"
"""States of a group, by their names in ListGroups and ConsumerGroupDescribe."""
NO_EPOCH = -1
"""The assignment epoch of a group whose tombstone was read."""


def subscribed_names(member: Member, regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Return the topics to which a member is subscribed, by name and by the matches of its regular expression."""
    if member.topic_regex in regexes:
        return member.topic_names | regexes[member.topic_regex].topics
    return member.topic_names


def all_subscribed_names(members: Collection[Member], regexes: Mapping[str, ResolvedRegex]) -> frozenset[str]:
    """Return the topics to which any of these members is subscribed."""
    # Many members have the same expression, and it may match many topics.
    used = {member.topic_regex for member in members} & regexes.keys()
    return frozenset[str]().union(
        *(member.topic_names for member in members), *(regexes[regex].topics for regex in used)
    )


@dataclass(slots=True)
class _Owners:
    """For each partition, the epoch of the member that owns it, or has not given it back yet."""

    epochs: dict[UUID, dict[int, int]]

    def add(self, assignment: Assignment, epoch: int) -> None:
        for topic_id, partitions in assignment.items():
            self.epochs.setdefault(topic_id, {}).update(dict.fromkeys(partitions, epoch))

    def remove(self, assignment: Assignment, epoch: int) -> None:
        for topic_id, partitions in assignment.items():
            known = self.epochs.get(topic_id, {})
            for partition in partitions:
                # Another record may have given it to another member since.
                if known.get(partition) == epoch:
                    del known[partition]
            if not known:
                self.epochs.pop(topic_id, None)


class ConsumerGroup:
    """The state of one group. Only `replay` changes it.

    Attributes:
        members: by member id.
        static_members: member ids by instance id.
        group_epoch: grows with every change of members, subscriptions and subscribed topics.
        assignment_epoch: the group epoch for which `target` was computed.
        target: the target assignment of each member.
        topics: the subscribed topics as the group last saw them, by name.
        regexes: what the members' regular expressions matched.
        seen_version: version of the cluster's topics with which `topics` was compared; -1 for none.
    """

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.group_epoch = 0
        self.assignment_epoch = 0
        self.target: dict[str, Assignment] = {}
        self.topics: dict[str, TopicMetadata] = {}
        self.regexes: dict[str, ResolvedRegex] = {}
        self.seen_version = -1
        self._owners = _Owners({})

    @property
    def state(self) -> str:
        if not self.members:
            return EMPTY
        if self.group_epoch > self.assignment_epoch:
            return ASSIGNING
        if all(member.is_reconciled_to(self.assignment_epoch) for member in self.members.values()):
            return STABLE
        return RECONCILING

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_gone(self) -> bool:
        """Return whether the group's last record in the log is its tombstone."""
        return self.group_epoch < 0

    @property
    def is_new(self) -> bool:
        """Return whether no record of the group was ever stored."""
        return self.group_epoch == 0 and not self.members

    def copy(self) -> ConsumerGroup:
        """Return a copy of the group, which later records do not change."""
        twin = ConsumerGroup(self.group_id)
        twin.__dict__.update(self.__dict__)
        twin.members = dict(self.members)
        twin.static_members = dict(self.static_members)
        twin.target = dict(self.target)
        twin.regexes = dict(self.regexes)
        twin._owners = _Owners({topic_id: dict(epochs) for topic_id, epochs in self._owners.epochs.items()})
        return twin

    def static_member(self, instance_id: str) -> Member | None:
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members.get(member_id)

    def is_owned(self, topic_id: UUID, partition: int) -> bool:
        """Return whether some member owns the partition, or has not given it back yet."""
        return partition in self._owners.epochs.get(topic_id, ())

    def owner_epoch(self, topic_id: UUID, partition: int) -> int:
        """Return the epoch of the member that owns the partition, -1 for none."""
        return self._owners.epochs.get(topic_id, {}).get(partition, -1)

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """Return the target assignment of a member; a static member takes over its predecessor's."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, member_id)
        return self.target.get(member_id, NO_PARTITIONS)

    def all_subscribed(self) -> frozenset[str]:
        """Return the topics that its members consume, whose offsets do not expire and cannot be deleted."""
        return all_subscribed_names(self.members.values(), self.regexes)

    def all_use_classic_except(self, leaving: Collection[str]) -> bool:
        """Return whether all other members speak the classic protocol."""
        return all(member.classic is not None for member in self.members.values() if member.member_id not in leaving)

    # -- replaying

    def replay(self, record: GroupRecord) -> None:
        """Apply a record of this group, of any type."""
        value = record.value
        if record.kind is log.MemberMetadata:
            self._replay_member(record.key.member_id, value)  # type: ignore[union-attr, arg-type]
        elif record.kind is log.CurrentAssignment:
            self._replay_current(record.key.member_id, value)  # type: ignore[union-attr, arg-type]
        elif record.kind is log.TargetAssignment:
            self._replay_target(record.key.member_id, value)  # type: ignore[union-attr, arg-type]
        elif record.kind is log.RegularExpression:
            self._replay_regex(record.key.regular_expression, value)  # type: ignore[union-attr, arg-type]
        elif record.kind is log.PartitionMetadata:
            self._replay_topics(value)  # type: ignore[arg-type]
        elif record.kind is log.TargetAssignmentMetadata:
            self.assignment_epoch = value.assignment_epoch if value is not None else NO_EPOCH  # type: ignore[union-attr]
        else:
            self.group_epoch = value.epoch if value is not None else NO_EPOCH  # type: ignore[union-attr]

    def _replay_member(self, member_id: str, value: log.MemberMetadata | None) -> None:
        old = self.members.get(member_id)
        if value is None:
            if old is not None:
                self._forget(old)
            return
        classic = None
        if value.classic_member_metadata is not None:
            classic = ClassicMetadata(
                value.classic_member_metadata.session_timeout_ms,
                tuple((item.name, item.metadata) for item in value.classic_member_metadata.supported_protocols),
            )
        member = replace(
            old or Member(member_id),
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            client_id=value.client_id,
            client_host=value.client_host,
            topic_names=frozenset(value.subscribed_topic_names),
            topic_regex=value.subscribed_topic_regex or "",
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            server_assignor=value.server_assignor,
            classic=classic,
        )
        if old is not None and old.instance_id not in (None, member.instance_id):
            self._release_instance(old)
        self.members[member_id] = member
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member_id

    def _replay_current(self, member_id: str, value: log.CurrentAssignment | None) -> None:
        old = self.members.get(member_id)
        if value is None:
            if old is None:
                return
            member = replace(
                old,
                epoch=LEAVE_EPOCH,
                previous_epoch=LEAVE_EPOCH,
                assigned=NO_PARTITIONS,
                pending_revocation=NO_PARTITIONS,
            )
        else:
            member = replace(
                old or Member(member_id),
                epoch=value.member_epoch,
                previous_epoch=value.previous_member_epoch,
                state=MemberState.of(value.state),
                assigned=assignment_of(value.assigned_partitions),
                pending_revocation=assignment_of(value.partitions_pending_revocation),
            )
        if old is not None:
            self._owners.remove(old.assigned, old.epoch)
            self._owners.remove(old.pending_revocation, old.epoch)
        self._owners.add(member.assigned, member.epoch)
        self._owners.add(member.pending_revocation, member.epoch)
        self.members[member_id] = member

    def _replay_target(self, member_id: str, value: log.TargetAssignment | None) -> None:
        if value is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = assignment_of(value.topic_partitions)

    def _replay_regex(self, regex: str, value: log.RegularExpression | None) -> None:
        if value is None:
            self.regexes.pop(regex, None)
        else:
            self.regexes[regex] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)

    def _replay_topics(self, value: log.PartitionMetadata | None) -> None:
        self.topics = {
            topic.topic_name: TopicMetadata(
                topic.topic_id,
                topic.topic_name,
                topic.num_partitions,
                {entry.partition: frozenset(entry.racks) for entry in topic.partition_metadata},
            )
            for topic in (value.topics if value is not None else ())
        }

    def _forget(self, member: Member) -> None:
        self._owners.remove(member.assigned, member.epoch)
        self._owners.remove(member.pending_revocation, member.epoch)
        del self.members[member.member_id]
        self._release_instance(member)

    def _release_instance(self, member: Member) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
