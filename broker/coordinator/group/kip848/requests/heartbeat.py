"""ConsumerGroupHeartbeat: a member joins, keeps up with and leaves a group of the consumer protocol (KIP-848)."""

from __future__ import annotations

from dataclasses import replace

from broker.coordinator.group.kip848 import member_changes
from broker.coordinator.group.kip848.advance import advance
from broker.coordinator.group.kip848.context import Context, Outcome, Timer, TimerKind
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.kip848.model import (
    JOIN_EPOCH,
    LEAVE_EPOCH,
    STATIC_LEAVE_EPOCH,
    Assignment,
    Member,
    topic_partitions,
)
from kafkalog.protocol.errors import InvalidRequestError, UnsupportedAssignorError
from kafkalog.protocol.messages import consumer_group_heartbeat as messages
from kafkalog.protocol.primitives import MAX_STRING, fits_string

_OWN_MEMBER_ID = 1
"""From this version on, members choose their ids (KIP-1082)."""


def check_request(request: messages.ConsumerGroupHeartbeatRequest, version: int, context: Context) -> None:
    """Check a request by itself, without the group.

    Raises:
        InvalidRequestError: a field is missing, empty, invalid, or too long for the member's records.
        UnsupportedAssignorError: the broker does not have the assignor.
    """
    epoch = request.member_epoch
    if version >= _OWN_MEMBER_ID or epoch > 0 or epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH):
        _require_text(request.member_id, "MemberId can't be empty.")
    _require_text(request.group_id, "GroupId can't be empty.")
    _require_text(request.instance_id, "InstanceId can't be empty.")
    _require_text(request.rack_id, "RackId can't be empty.")
    if epoch == JOIN_EPOCH:
        if request.rebalance_timeout_ms == -1:
            raise InvalidRequestError("RebalanceTimeoutMs must be provided in first request.")
        if request.topic_partitions is None or request.topic_partitions:
            raise InvalidRequestError("TopicPartitions must be empty when (re-)joining.")
        if request.subscribed_topic_names is None and request.subscribed_topic_regex is None:
            raise InvalidRequestError(
                "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining."
            )
    elif epoch == STATIC_LEAVE_EPOCH and request.instance_id is None:
        raise InvalidRequestError("InstanceId can't be null.")
    elif epoch < STATIC_LEAVE_EPOCH:
        raise InvalidRequestError("MemberEpoch is invalid.")
    assignors = context.config.assignors
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise UnsupportedAssignorError(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}."
        )
    _require_short("MemberId", request.member_id)
    _require_short("InstanceId", request.instance_id)
    _require_short("RackId", request.rack_id)
    _require_short("ClientId", context.client_id)
    _require_short("SubscribedTopicNames", *request.subscribed_topic_names or ())


def is_leaving(request: messages.ConsumerGroupHeartbeatRequest) -> bool:
    return request.member_epoch in (LEAVE_EPOCH, STATIC_LEAVE_EPOCH)


def heartbeat(
    group: ConsumerGroup,
    request: messages.ConsumerGroupHeartbeatRequest,
    context: Context,
    owned: Assignment | None,
) -> Outcome[messages.ConsumerGroupHeartbeatResponse]:
    """Handle a heartbeat of a member that stays or joins; `check_request` has passed.

    Args:
        owned: the request's `topic_partitions`, which may be many.

    Raises:
        GroupMaxSizeReachedError: one more member is too many.
        UnknownMemberIdError: there is no such member.
        FencedMemberEpochError: the epoch is not the member's, or a newer release left the member in a state unknown
            here; it must join again.
        UnreleasedInstanceIdError: another member has the instance id, and has not left.
        FencedInstanceIdError: another member has the instance id.
        InvalidRegularExpressionError: the expression is refused.
        UnknownServerError: the assignor failed.
    """
    joins = request.member_epoch == JOIN_EPOCH
    member_id = request.member_id or context.new_member_id()
    member_changes.check_size(group, member_id, context.config.max_size)
    records: list[GroupRecord] = []
    old = _member(group, member_id, request, owned, records)
    new = replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if request.rack_id is None else request.rack_id,
        rebalance_timeout_ms=(
            old.rebalance_timeout_ms if request.rebalance_timeout_ms == -1 else request.rebalance_timeout_ms
        ),
        topic_names=(
            old.topic_names if request.subscribed_topic_names is None else frozenset(request.subscribed_topic_names)
        ),
        topic_regex=old.topic_regex if request.subscribed_topic_regex is None else request.subscribed_topic_regex,
        server_assignor=old.server_assignor if request.server_assignor is None else request.server_assignor,
        client_id=context.client_id,
        client_host=context.client_host,
        classic=None,
    )
    result = advance(group, old, new, owned, context, records)
    member = result.member
    response = messages.ConsumerGroupHeartbeatResponse(
        member_id=member.member_id,
        member_epoch=member.epoch,
        heartbeat_interval_ms=context.config.heartbeat_interval_ms,
    )
    tells_all = (
        request.rebalance_timeout_ms != -1
        and (request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None)
        and owned is not None
    )
    if joins or tells_all or member.assigned != old.assigned:
        response.assignment = _assignment(member)
    timers = [*result.timers, Timer(TimerKind.SESSION, member_id, context.config.session_timeout_ms)]
    if old.classic is not None:
        timers += [Timer(TimerKind.JOIN, member_id, None), Timer(TimerKind.SYNC, member_id, None)]
    return Outcome(response, result.records, timers, result.seen_version)


def leave(
    group: ConsumerGroup, request: messages.ConsumerGroupHeartbeatRequest, context: Context
) -> Outcome[messages.ConsumerGroupHeartbeatResponse]:
    """Handle a heartbeat of a member that leaves; a static member may leave for a while only.

    Raises:
        UnknownMemberIdError: there is no such member.
        FencedInstanceIdError: another member has the instance id.
    """
    response = messages.ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)
    member = leaver(group, request)
    if request.member_epoch == STATIC_LEAVE_EPOCH:
        return Outcome(response, member_changes.leave_for_a_while(group, member))
    return Outcome(
        response, member_changes.remove(group, [member], context), member_changes.stop_timers(member.member_id)
    )


def leaver(group: ConsumerGroup, request: messages.ConsumerGroupHeartbeatRequest) -> Member:
    """Return the member of a request to leave.

    Raises:
        UnknownMemberIdError: there is no such member.
        FencedInstanceIdError: another member has the instance id.
    """
    if request.instance_id is None:
        return member_changes.known_member(group, request.member_id)
    return member_changes.known_static_member(group, request.member_id, request.instance_id)


def _member(
    group: ConsumerGroup,
    member_id: str,
    request: messages.ConsumerGroupHeartbeatRequest,
    owned: Assignment | None,
    records: list[GroupRecord],
) -> Member:
    """Return the member before the request; for a member that joins, its initial state."""
    joins = request.member_epoch == JOIN_EPOCH
    if request.instance_id is None:
        if joins:
            # A known member that joins has lost its own state: it owns nothing, and gets its assignment again.
            return group.members.get(member_id) or Member(member_id)
        member = member_changes.known_member(group, member_id)
        member_changes.check_epoch(member, request.member_epoch, owned)
        return member
    if joins:
        member_changes.check_released(group, member_id, request.instance_id)
        return member_changes.static_joiner(group, member_id, request.instance_id, records)
    member = member_changes.known_static_member(group, member_id, request.instance_id)
    member_changes.check_epoch(member, request.member_epoch, owned)
    return member


def _assignment(member: Member) -> messages.Assignment:
    return messages.Assignment(
        topic_partitions=[
            messages.TopicPartitions(topic_id=topic.topic_id, partitions=topic.partitions)
            for topic in topic_partitions(member.assigned)
        ]
    )


def _require_short(field: str, *texts: str | None) -> None:
    if not all(map(fits_string, texts)):
        raise InvalidRequestError(f"{field} can't be longer than {MAX_STRING} bytes.")


def _require_text(text: str | None, message: str) -> None:
    if text is not None and not text.strip():
        raise InvalidRequestError(message)
