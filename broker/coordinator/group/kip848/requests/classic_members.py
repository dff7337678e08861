"""Members that use the classic protocol in a consumer group (KIP-848, "Online migration").

The coordinator assigns their partitions, too: JoinGroup with its embedded subscription is treated as a heartbeat, the
generation is the member epoch, no member leads, and SyncGroup returns the assignment. The answers to their heartbeats
(REBALANCE_IN_PROGRESS) make members join again when they have partitions to give back or to get.

Checks, their order and their texts are Apache Kafka's (`GroupMetadataManager`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from broker.coordinator.group.classic.requests import (
    UNKNOWN_MEMBER_ID,
    JoinRequest,
    JoinResult,
    SyncRequest,
    SyncResult,
)
from broker.coordinator.group.kip848 import member_changes
from broker.coordinator.group.kip848.advance import advance
from broker.coordinator.group.kip848.context import Context, Outcome, Timer, TimerKind
from broker.coordinator.group.kip848.formats import embedded
from broker.coordinator.group.kip848.formats.log_records import GroupRecord
from broker.coordinator.group.kip848.group import ConsumerGroup
from broker.coordinator.group.kip848.model import ClassicMetadata, Member, MemberState
from kafkalog.protocol.embedded.consumer import PROTOCOL_TYPE, ConsumerSubscription, version_of
from kafkalog.protocol.errors import (
    ErrorCode,
    IllegalGenerationError,
    InconsistentGroupProtocolError,
    InvalidRequestError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)
from kafkalog.protocol.primitives import ProtocolError, TooManyEntriesError


def join(group: ConsumerGroup, request: JoinRequest, context: Context) -> Outcome[JoinResult]:
    """Handle JoinGroup.

    Raises:
        GroupMaxSizeReachedError: one more member is too many.
        InconsistentGroupProtocolError: the group does not support the member's protocols, or its subscription cannot be
            read.
        InvalidRequestError: its subscription has more than `embedded.MOST_ENTRIES` topics and partitions.
        UnknownMemberIdError: there is no such member.
        FencedInstanceIdError: another member has the instance id.
    """
    is_unknown = request.member_id == UNKNOWN_MEMBER_ID
    member_id = context.new_member_id() if is_unknown else request.member_id
    member_changes.check_size(group, member_id, context.config.max_size)
    if not _supports(group, request):
        raise InconsistentGroupProtocolError(f"Member {member_id}'s protocols are not supported.")
    if is_unknown and request.require_known_id:
        return Outcome(JoinResult(member_id, ErrorCode.MEMBER_ID_REQUIRED))
    name, metadata = request.protocols[0]
    subscription = _subscription(member_id, metadata)
    records: list[GroupRecord] = []
    old = _joining(group, member_id, request, records)
    new = replace(
        old,
        instance_id=old.instance_id if request.instance_id is None else request.instance_id,
        rack_id=old.rack_id if subscription.rack_id is None else subscription.rack_id,
        rebalance_timeout_ms=request.rebalance_timeout_ms,
        topic_names=frozenset(subscription.topics),
        topic_regex="",
        client_id=request.client_id,
        client_host=request.client_host,
        classic=ClassicMetadata(request.session_timeout_ms, tuple(request.protocols)),
    )
    owned = embedded.by_id(subscription.owned_partitions, context.topics)
    result = advance(group, old, new, owned, context, records)
    timers = [
        Timer(TimerKind.REBALANCE, member_id, None),
        Timer(TimerKind.JOIN, member_id, None),
        Timer(TimerKind.SESSION, member_id, request.session_timeout_ms),
        Timer(TimerKind.SYNC, member_id, request.rebalance_timeout_ms),
    ]
    response = JoinResult(
        member_id,
        generation=result.member.epoch,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=name,
    )
    return Outcome(response, result.records, [*result.timers, *timers], result.seen_version)


def _subscription(member_id: str, metadata: bytes) -> ConsumerSubscription:
    try:
        return embedded.decode_subscription(metadata)
    except TooManyEntriesError as error:
        raise InvalidRequestError(
            f"Member {member_id}'s subscription has more than {embedded.MOST_ENTRIES} topics and partitions."
        ) from error
    except ProtocolError as error:
        raise InconsistentGroupProtocolError(f"Member {member_id}'s subscription cannot be read: {error}") from error


def _joining(group: ConsumerGroup, member_id: str, request: JoinRequest, records: list[GroupRecord]) -> Member:
    if request.instance_id is None:
        return group.members.get(member_id) or Member(member_id)
    if request.member_id == UNKNOWN_MEMBER_ID:
        # A static member keeps its place: the old id is fenced.
        return member_changes.static_joiner(group, member_id, request.instance_id, records)
    return member_changes.known_static_member(group, member_id, request.instance_id)


def _supports(group: ConsumerGroup, request: JoinRequest) -> bool:
    """Return whether a member supports a protocol that all classic members support."""
    if request.protocol_type != PROTOCOL_TYPE:
        return False
    present = [member.classic for member in group.members.values() if member.classic is not None]
    known = Counter(name for classic in present for name in {name for name, _ in classic.protocols})
    return any(known[name] == len(present) for name, _ in request.protocols)


def sync(group: ConsumerGroup, request: SyncRequest, context: Context) -> Outcome[SyncResult]:
    """Handle SyncGroup.

    Raises:
        UnknownMemberIdError: there is no such member of the classic protocol.
        FencedInstanceIdError: another member has the instance id.
        IllegalGenerationError: the generation is not the member's.
        InconsistentGroupProtocolError: the protocol is not the one that the response to the join named.
    """
    member, classic = _classic_member(group, request.member_id, request.instance_id)
    _check_generation(member, request.generation)
    name, metadata = classic.protocols[0]
    if request.protocol_type not in (None, PROTOCOL_TYPE) or request.protocol_name not in (None, name):
        raise InconsistentGroupProtocolError(
            f"The protocol {request.protocol_type}/{request.protocol_name} from member {member.member_id} request is "
            f"not equal to {PROTOCOL_TYPE}/{name} returned in the join response."
        )
    if group.group_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        timer = Timer(TimerKind.JOIN, member.member_id, member.rebalance_timeout_ms, keep=True)
        return Outcome(SyncResult(RebalanceInProgressError.code), timers=[timer])
    assignment = embedded.encode_assignment(member.assigned, version_of(metadata), context.topics)
    return Outcome(
        SyncResult(ErrorCode.NONE, request.protocol_type, request.protocol_name, assignment),
        timers=[
            Timer(TimerKind.SYNC, member.member_id, None),
            Timer(TimerKind.SESSION, member.member_id, classic.session_timeout_ms),
        ],
    )


def heartbeat(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> Outcome[ErrorCode]:
    """Handle Heartbeat; REBALANCE_IN_PROGRESS makes the member join again.

    Raises:
        UnknownMemberIdError: there is no such member of the classic protocol.
        FencedInstanceIdError: another member has the instance id.
        IllegalGenerationError: the generation is not the member's.
    """
    member, classic = _classic_member(group, member_id, instance_id)
    _check_generation(member, generation)
    timers = [Timer(TimerKind.SESSION, member_id, classic.session_timeout_ms)]
    if (
        member.epoch < group.group_epoch
        or member.state is MemberState.UNREVOKED_PARTITIONS
        or (member.state is MemberState.UNRELEASED_PARTITIONS and not _waits_for_others(group, member))
    ):
        timers.append(Timer(TimerKind.JOIN, member_id, member.rebalance_timeout_ms, keep=True))
        return Outcome(RebalanceInProgressError.code, timers=timers)
    return Outcome(ErrorCode.NONE, timers=timers)


def leave(
    group: ConsumerGroup, members: Sequence[tuple[str, str | None]], context: Context
) -> Outcome[list[ErrorCode]]:
    """Handle LeaveGroup of members (member id, instance id); return the error of each."""
    errors = []
    leaving: dict[str, Member] = {}
    for member_id, instance_id in members:
        try:
            if instance_id is not None and member_id == UNKNOWN_MEMBER_ID:
                # An administrator names it by its instance id alone.
                member_id = group.static_members.get(instance_id, "")
            member, _ = _classic_member(group, member_id, instance_id)
            leaving[member.member_id] = member
            errors.append(ErrorCode.NONE)
        except KafkaError as error:
            errors.append(error.code)
    if not leaving:
        return Outcome(errors)
    timers = [timer for member_id in leaving for timer in member_changes.stop_timers(member_id)]
    return Outcome(errors, member_changes.remove(group, list(leaving.values()), context), timers)


def _classic_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> tuple[Member, ClassicMetadata]:
    if instance_id is None:
        member = member_changes.known_member(group, member_id)
    else:
        member = member_changes.known_static_member(group, member_id, instance_id)
    if member.classic is None:
        raise UnknownMemberIdError(f"Member {member.member_id} does not use the classic protocol.")
    return member, member.classic


def _check_generation(member: Member, generation: int) -> None:
    if generation != member.epoch:
        raise IllegalGenerationError(
            f"The request generation id {generation} is not equal to the member epoch {member.epoch} of member "
            f"{member.member_id}."
        )


def _waits_for_others(group: ConsumerGroup, member: Member) -> bool:
    """Return whether another member still owns a partition of its target."""
    return any(
        group.is_owned(topic_id, partition)
        for topic_id, partitions in group.target.get(member.member_id, {}).items()
        for partition in partitions - member.assigned.get(topic_id, frozenset())
    )
