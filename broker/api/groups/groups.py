"""Groups of the classic protocol: JoinGroup (key 11), SyncGroup (14), Heartbeat (12) and LeaveGroup (13).

Groups of either protocol: ListGroups (16), DescribeGroups (15) and DeleteGroups (42).
"""

from __future__ import annotations

from collections.abc import Iterable

from broker.api.context import Request
from broker.api.errors import error_code
from broker.api.large import Turn
from broker.coordinator.group.classic.requests import JoinRequest, JoinResult, Leaver, SyncRequest
from kafkalog.protocol.acls import AclOperation, AclResourceType
from kafkalog.protocol.errors import ErrorCode, GroupAuthorizationFailedError
from kafkalog.protocol.messages import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    sync_group,
)

ID_FIRST_SINCE = 4
"""Versions of JoinGroup whose clients know MEMBER_ID_REQUIRED (KIP-394)."""
NULL_PROTOCOL_SINCE = 7
SKIP_ASSIGNMENT_SINCE = 9
PROTOCOL_REQUIRED_SINCE = 5
"""Versions of SyncGroup that must name the protocol (KIP-559)."""
MANY_MEMBERS_SINCE = 3
"""Versions of LeaveGroup that take several members."""
MOST_PROTOCOLS = 1000
"""The most protocols of a member that count, the preferred ones. A group examines those of all members in one turn."""
MOST_STORED = 16 << 20
"""The most bytes of a member's subscriptions, and of all assignments. They become one record; no log accepts a larger
one, but several copies of it would be made before the log refuses it."""
ENCODED_AT_ONCE = 1 << 20
"""The most bytes of subscriptions and assignments that are copied into a response without a worker."""


def _may_join(request: Request) -> bool:
    """Return whether the client may be a member of the group."""
    return request.allows(AclOperation.READ, AclResourceType.GROUP, request.message.group_id)


async def handle_join_group(request: Request) -> None:
    message: join_group.JoinGroupRequest = request.message
    if not _may_join(request):
        request.reply(join_group.JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    protocols = message.protocols[:MOST_PROTOCOLS]
    if sum(len(protocol.metadata) for protocol in protocols) > MOST_STORED:
        request.reply(join_group.JoinGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    timeout_ms = message.rebalance_timeout_ms
    joining = JoinRequest(
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        client_id=request.client_id or "",
        # Java writes an address without a name like this.
        client_host=f"/{request.connection.peer}",
        session_timeout_ms=message.session_timeout_ms,
        rebalance_timeout_ms=message.session_timeout_ms if timeout_ms < 0 else timeout_ms,
        protocol_type=message.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in protocols),
        require_known_id=request.version >= ID_FIRST_SINCE and message.group_instance_id is None,
        can_skip_assignment=request.version >= SKIP_ASSIGNMENT_SINCE,
        reason=message.reason,
        sees=request.seen_topics,
    )
    try:
        result = await request.broker.classic_groups.join(message.group_id, joining)
    except Exception as error:
        result = JoinResult(message.member_id, error_code(error))
    if sum(len(member.metadata) for member in result.members) > ENCODED_AT_ONCE:
        # A worker encodes the response of a request that has ended a turn.
        await request.take_turns().end()
    protocol_name = result.protocol_name
    await request.answer(
        join_group.JoinGroupResponse(
            error_code=result.error,
            generation_id=result.generation,
            protocol_type=result.protocol_type,
            protocol_name="" if protocol_name is None and request.version < NULL_PROTOCOL_SINCE else protocol_name,
            leader=result.leader,
            skip_assignment=result.skip_assignment,
            member_id=result.member_id,
            members=[
                join_group.JoinGroupResponseMember(
                    member_id=member.member_id, group_instance_id=member.instance_id, metadata=member.metadata
                )
                for member in result.members
            ],
        )
    )


async def handle_sync_group(request: Request) -> None:
    message: sync_group.SyncGroupRequest = request.message
    if request.version >= PROTOCOL_REQUIRED_SINCE and (message.protocol_type is None or message.protocol_name is None):
        request.reply(sync_group.SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    if not _may_join(request):
        request.reply(sync_group.SyncGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
        return
    assignments: dict[str, bytes] = {}
    nbytes = 0
    turn = request.take_turns()
    for each in message.assignments:
        assignments[each.member_id] = each.assignment
        nbytes += len(each.assignment)
        if turn.is_over:
            await turn.end()
    if nbytes > MOST_STORED:
        request.reply(sync_group.SyncGroupResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR))
        return
    syncing = SyncRequest(
        member_id=message.member_id,
        instance_id=message.group_instance_id,
        generation=message.generation_id,
        protocol_type=message.protocol_type,
        protocol_name=message.protocol_name,
        assignments=assignments,
    )
    response = sync_group.SyncGroupResponse()
    try:
        result = await request.broker.classic_groups.sync(message.group_id, syncing)
    except Exception as error:
        response.error_code = error_code(error)
    else:
        response.error_code = result.error
        response.protocol_type = result.protocol_type
        response.protocol_name = result.protocol_name
        response.assignment = result.assignment
    request.reply(response)


def handle_heartbeat(request: Request) -> None:
    message: heartbeat.HeartbeatRequest = request.message
    response = heartbeat.HeartbeatResponse()
    try:
        if not _may_join(request):
            raise GroupAuthorizationFailedError
        response.error_code = request.broker.classic_groups.heartbeat(
            message.group_id, message.member_id, message.group_instance_id, message.generation_id
        )
    except Exception as error:
        response.error_code = error_code(error)
    request.reply(response)


async def handle_leave_group(request: Request) -> None:
    message: leave_group.LeaveGroupRequest = request.message
    turn = request.take_turns()
    leaving = [Leaver(message.member_id)]
    if request.version >= MANY_MEMBERS_SINCE:
        leaving = []
        for member in message.members:
            leaving.append(Leaver(member.member_id, member.group_instance_id, member.reason))
            if turn.is_over:
                await turn.end()
    response = leave_group.LeaveGroupResponse()
    try:
        if not _may_join(request):
            raise GroupAuthorizationFailedError
        errors = await request.broker.classic_groups.leave(message.group_id, leaving)
    except Exception as error:
        response.error_code = error_code(error)
    else:
        turn.begin()
        if request.version < MANY_MEMBERS_SINCE:
            response.error_code = errors[0]
        else:
            for leaver, code in zip(leaving, errors, strict=True):
                left = leave_group.MemberResponse(
                    member_id=leaver.member_id, group_instance_id=leaver.instance_id, error_code=code
                )
                response.members.append(left)
                if turn.is_over:
                    await turn.end()
    await request.answer(response, leaving)


async def handle_list_groups(request: Request) -> None:
    message: list_groups.ListGroupsRequest = request.message
    turn = request.take_turns()
    states = await _lower(message.states_filter, turn)
    kinds = await _lower(message.types_filter, turn)
    sees_all = request.allows_cluster(AclOperation.DESCRIBE, tells_denied=False)
    error, listed = request.broker.groups.list_groups()
    response = list_groups.ListGroupsResponse(error_code=error)
    for group in listed:
        is_wanted = (not states or group.state.lower() in states) and (not kinds or group.kind in kinds)
        if is_wanted and (sees_all or request.sees(AclResourceType.GROUP, group.group_id)):
            response.groups.append(
                list_groups.ListedGroup(
                    group_id=group.group_id,
                    protocol_type=group.protocol_type,
                    group_state=group.state,
                    group_type=group.kind,
                )
            )
        if turn.is_over:
            await turn.end()
    await request.answer(response)


async def _lower(names: Iterable[str], turn: Turn) -> set[str]:
    """Return the names of a filter in lower case; a request may write them in any case."""
    lower = set()
    for name in names:
        lower.add(name.lower())
        if turn.is_over:
            await turn.end()
    return lower


async def handle_describe_groups(request: Request) -> None:
    message: describe_groups.DescribeGroupsRequest = request.message
    response = describe_groups.DescribeGroupsResponse()
    wanted = await request.distinct(message.groups)
    turn = request.take_turns()
    nbytes = 0
    for group_id in wanted:
        group = _described(request, group_id)
        response.groups.append(group)
        nbytes += sum(len(member.member_metadata) + len(member.member_assignment) for member in group.members)
        if turn.is_over or (nbytes > ENCODED_AT_ONCE and not turn.ended):
            # A worker encodes the response of a request that has ended a turn.
            await turn.end()
            if request.connection.closed:
                return
    await request.answer(response, wanted)


def _described(request: Request, group_id: str) -> describe_groups.DescribedGroup:
    group = describe_groups.DescribedGroup(group_id=group_id)
    try:
        if not request.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group_id):
            raise GroupAuthorizationFailedError
        summary = request.broker.groups.describe(group_id)
    except Exception as error:
        group.error_code = error_code(error)
        return group
    group.group_state, group.protocol_type = summary.state, summary.protocol_type
    group.protocol_data = summary.protocol
    group.authorized_operations = request.authorized_operations(
        request.message.include_authorized_operations, AclResourceType.GROUP, group_id
    )
    group.members = [
        describe_groups.DescribedGroupMember(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            member_metadata=member.metadata,
            member_assignment=member.assignment,
        )
        for member in summary.members
    ]
    return group


async def handle_delete_groups(request: Request) -> None:
    message: delete_groups.DeleteGroupsRequest = request.message
    turn = request.take_turns()
    response = delete_groups.DeleteGroupsResponse()
    wanted = await request.distinct(message.groups_names)
    # To the end, even if the client leaves meanwhile.
    for group_id in wanted:
        error = ErrorCode.GROUP_AUTHORIZATION_FAILED
        if request.allows(AclOperation.DELETE, AclResourceType.GROUP, group_id):
            error = await request.broker.groups.delete_group(group_id)
        response.results.append(delete_groups.DeletableGroupResult(group_id=group_id, error_code=error))
        if turn.is_over:
            await turn.end()
    await request.answer(response, wanted)


HANDLERS = {
    join_group.JoinGroupRequest: handle_join_group,
    sync_group.SyncGroupRequest: handle_sync_group,
    heartbeat.HeartbeatRequest: handle_heartbeat,
    leave_group.LeaveGroupRequest: handle_leave_group,
    list_groups.ListGroupsRequest: handle_list_groups,
    describe_groups.DescribeGroupsRequest: handle_describe_groups,
    delete_groups.DeleteGroupsRequest: handle_delete_groups,
}
