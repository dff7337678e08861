"""Requests about groups with many entries, by the name of their API."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from kafkalog.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kafkalog.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kafkalog.protocol.messages.delete_groups import DeleteGroupsRequest
from kafkalog.protocol.messages.describe_groups import DescribeGroupsRequest
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalog.protocol.messages.list_groups import ListGroupsRequest
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kafkalog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from tests.broker.coordinator.group.serving import MANY, NAMES


def commit_request(count: int, **fields: Any) -> OffsetCommitRequest:
    partitions = [OffsetCommitRequestPartition(partition_index=index, committed_offset=2) for index in range(count)]
    return OffsetCommitRequest(
        group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=partitions)], **fields
    )


def fetch_groups(*wanted: OffsetFetchRequestGroup) -> OffsetFetchRequest:
    return OffsetFetchRequest(groups=list(wanted))


def fetch_group(partitions: int | None, group: str = "g") -> OffsetFetchRequestGroup:
    topics = None
    if partitions is not None:
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=list(range(partitions)))]
    return OffsetFetchRequestGroup(group_id=group, topics=topics)


LARGE: dict[str, tuple[Any, int]] = {
    "OffsetCommit": (commit_request(MANY), 8),
    "OffsetCommit of topics": (
        OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name=name) for name in NAMES]), 8,
    ),
    "TxnOffsetCommit": (
        TxnOffsetCommitRequest(
            group_id="g",
            topics=[
                TxnOffsetCommitRequestTopic(
                    name="none",
                    partitions=[TxnOffsetCommitRequestPartition(partition_index=index) for index in range(MANY)],
                )
            ],
        ),
        3,
    ),
    "OffsetFetch of groups": (fetch_groups(*(fetch_group(None, name) for name in NAMES)), 8),
    "OffsetFetch of partitions": (fetch_groups(fetch_group(MANY)), 8),
    "OffsetFetch of one group": (
        OffsetFetchRequest(
            group_id="g", topics=[OffsetFetchRequestTopic(name="t", partition_indexes=list(range(MANY)))]
        ),
        7,
    ),
    "OffsetDelete": (
        OffsetDeleteRequest(
            group_id="g",
            topics=[
                OffsetDeleteRequestTopic(
                    name="t", partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in range(MANY)]
                )
            ],
        ),
        0,
    ),
    "FindCoordinator": (FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES), 4),
    "FindCoordinator of no type": (FindCoordinatorRequest(key_type=7, coordinator_keys=NAMES), 4),
    "DescribeGroups": (DescribeGroupsRequest(groups=NAMES), 5),
    "ConsumerGroupDescribe": (ConsumerGroupDescribeRequest(group_ids=NAMES), 0),
    "DeleteGroups": (DeleteGroupsRequest(groups_names=NAMES), 2),
    "LeaveGroup": (LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=name) for name in NAMES]), 5),
    "SyncGroup": (
        SyncGroupRequest(
            group_id="g", member_id="m", protocol_type="consumer", protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=name) for name in NAMES],
        ),
        5,
    ),
    "ConsumerGroupHeartbeat of topics": (
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=1,
            topic_partitions=[TopicPartitions(topic_id=UUID(int=number), partitions=[0]) for number in range(MANY)],
        ),
        0,
    ),
    "ListGroups": (ListGroupsRequest(states_filter=NAMES), 4),
}  # fmt: skip


def join_request() -> tuple[Any, int]:
    return JoinGroupRequest(
        group_id="g", session_timeout_ms=10_000, rebalance_timeout_ms=10_000, protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    ), 3  # fmt: skip
