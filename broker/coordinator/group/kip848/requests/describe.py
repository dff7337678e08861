"""ConsumerGroupDescribe: the description of a group of the consumer protocol."""

from __future__ import annotations

from broker.coordinator.group.kip848.advance import preferred_assignor
from broker.coordinator.group.kip848.context import Context, Topics
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.kip848.model import Assignment, Member
from kafkalog.protocol.messages import consumer_group_describe as messages

CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1
"""Types of members, from version 1 on."""


def describe(group: ConsumerGroup, context: Context) -> messages.DescribedGroup:
    """Return the description of the group, without the operations that the client may do."""
    return messages.DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        assignor_name=preferred_assignor(group.members.values(), context),
        members=[_member(group, group.members[member_id], context.topics) for member_id in sorted(group.members)],
    )


def _member(group: ConsumerGroup, member: Member, topics: Topics) -> messages.Member:
    return messages.Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=member.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=sorted(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(member.assigned, topics),
        target_assignment=_assignment(group.target.get(member.member_id, {}), topics),
        member_type=CONSUMER_MEMBER if member.classic is None else CLASSIC_MEMBER,
    )


def _assignment(assignment: Assignment, topics: Topics) -> messages.Assignment:
    """Return an assignment without topics that were deleted meanwhile."""
    named = sorted((topics.name_of(topic_id), topic_id) for topic_id in assignment if topics.name_of(topic_id))
    return messages.Assignment(
        topic_partitions=[
            messages.TopicPartitions(topic_id=topic_id, topic_name=name, partitions=sorted(assignment[topic_id]))
            for name, topic_id in named
            if name is not None
        ]
    )
