"""FindCoordinator (key 10) and the group APIs while no group coordinator is available.

Each request is answered in full with COORDINATOR_NOT_AVAILABLE, the retriable error that a Kafka broker gives before
the group coordinator's topic can be served: clients with assigned partitions go on, clients that join a group wait.
"""

from __future__ import annotations

import logging

from broker.api.context import Request
from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)

logger = logging.getLogger("kafkalog.broker.groups")

UNAVAILABLE = ErrorCode.COORDINATOR_NOT_AVAILABLE
BATCHED_COORDINATORS = 4
BATCHED_GROUPS = 8
OFFSET_FETCH_TOP_LEVEL_ERROR = 2
_COORDINATORS = {
    0: "consumer groups, which this broker does not have yet: subscribe() waits for it; assign() partitions instead",
    1: "transactions, which this broker does not have yet: use a producer without transactional.id",
}
_MESSAGE = "The group coordinator is not available."


def handle_find_coordinator(request: Request) -> None:
    message: find_coordinator.FindCoordinatorRequest = request.message
    _tell_once(request, message.key_type)
    if request.version < BATCHED_COORDINATORS:
        response = find_coordinator.FindCoordinatorResponse(
            error_code=UNAVAILABLE, error_message=_MESSAGE, node_id=-1, host="", port=-1
        )
    else:
        response = find_coordinator.FindCoordinatorResponse(
            coordinators=[
                find_coordinator.Coordinator(
                    key=key, node_id=-1, host="", port=-1, error_code=UNAVAILABLE, error_message=_MESSAGE
                )
                for key in message.coordinator_keys
            ]
        )
    request.reply(response)


def _tell_once(request: Request, key_type: int) -> None:
    """Say in the log why a client waits: most retry a coordinator's lookup for ever and say nothing themselves."""
    if key_type in _COORDINATORS and key_type not in request.broker.told_of_coordinators:
        request.broker.told_of_coordinators.add(key_type)
        logger.warning("client %r looks for a coordinator of %s", request.client_id, _COORDINATORS[key_type])


def handle_join_group(request: Request) -> None:
    message: join_group.JoinGroupRequest = request.message
    response = join_group.JoinGroupResponse(error_code=UNAVAILABLE, member_id=message.member_id)
    response.protocol_name = None if request.version >= 7 else ""
    request.reply(response)


def handle_sync_group(request: Request) -> None:
    request.reply(sync_group.SyncGroupResponse(error_code=UNAVAILABLE))


def handle_heartbeat(request: Request) -> None:
    request.reply(heartbeat.HeartbeatResponse(error_code=UNAVAILABLE))


def handle_leave_group(request: Request) -> None:
    request.reply(leave_group.LeaveGroupResponse(error_code=UNAVAILABLE))


def handle_offset_commit(request: Request) -> None:
    message: offset_commit.OffsetCommitRequest = request.message
    topics = [
        offset_commit.OffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                offset_commit.OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=UNAVAILABLE
                )
                for partition in topic.partitions
            ],
        )
        for topic in message.topics
    ]
    request.reply(offset_commit.OffsetCommitResponse(topics=topics))


def handle_offset_fetch(request: Request) -> None:
    message: offset_fetch.OffsetFetchRequest = request.message
    if request.version >= BATCHED_GROUPS:
        groups = [
            offset_fetch.OffsetFetchResponseGroup(group_id=group.group_id, error_code=UNAVAILABLE)
            for group in message.groups
        ]
        request.reply(offset_fetch.OffsetFetchResponse(groups=groups))
        return
    response = offset_fetch.OffsetFetchResponse()
    if request.version >= OFFSET_FETCH_TOP_LEVEL_ERROR:
        response.error_code = UNAVAILABLE
    else:
        response.topics = [
            offset_fetch.OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    offset_fetch.OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=-1, metadata="", error_code=UNAVAILABLE
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in message.topics or []
        ]
    request.reply(response)


def handle_describe_groups(request: Request) -> None:
    message: describe_groups.DescribeGroupsRequest = request.message
    groups = [describe_groups.DescribedGroup(error_code=UNAVAILABLE, group_id=group) for group in message.groups]
    request.reply(describe_groups.DescribeGroupsResponse(groups=groups))


def handle_list_groups(request: Request) -> None:
    request.reply(list_groups.ListGroupsResponse(error_code=UNAVAILABLE))


def handle_delete_groups(request: Request) -> None:
    message: delete_groups.DeleteGroupsRequest = request.message
    results = [
        delete_groups.DeletableGroupResult(group_id=group, error_code=UNAVAILABLE) for group in message.groups_names
    ]
    request.reply(delete_groups.DeleteGroupsResponse(results=results))


def handle_offset_delete(request: Request) -> None:
    request.reply(offset_delete.OffsetDeleteResponse(error_code=UNAVAILABLE))


def handle_consumer_group_heartbeat(request: Request) -> None:
    request.reply(
        consumer_group_heartbeat.ConsumerGroupHeartbeatResponse(error_code=UNAVAILABLE, error_message=_MESSAGE)
    )


def handle_consumer_group_describe(request: Request) -> None:
    message: consumer_group_describe.ConsumerGroupDescribeRequest = request.message
    groups = [
        consumer_group_describe.DescribedGroup(group_id=group, error_code=UNAVAILABLE, error_message=_MESSAGE)
        for group in message.group_ids
    ]
    request.reply(consumer_group_describe.ConsumerGroupDescribeResponse(groups=groups))


HANDLERS = {
    find_coordinator.FindCoordinatorRequest: handle_find_coordinator,
    join_group.JoinGroupRequest: handle_join_group,
    sync_group.SyncGroupRequest: handle_sync_group,
    heartbeat.HeartbeatRequest: handle_heartbeat,
    leave_group.LeaveGroupRequest: handle_leave_group,
    offset_commit.OffsetCommitRequest: handle_offset_commit,
    offset_fetch.OffsetFetchRequest: handle_offset_fetch,
    describe_groups.DescribeGroupsRequest: handle_describe_groups,
    list_groups.ListGroupsRequest: handle_list_groups,
    delete_groups.DeleteGroupsRequest: handle_delete_groups,
    offset_delete.OffsetDeleteRequest: handle_offset_delete,
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest: handle_consumer_group_heartbeat,
    consumer_group_describe.ConsumerGroupDescribeRequest: handle_consumer_group_describe,
}
