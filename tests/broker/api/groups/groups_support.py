"""Send requests about groups over a plain socket, in any version."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

from kafkalog.protocol.errors import ErrorCode
from kafkalog.protocol.messages.find_coordinator import FindCoordinatorRequest
from kafkalog.protocol.messages.heartbeat import HeartbeatRequest
from kafkalog.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kafkalog.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kafkalog.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kafkalog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kafkalog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.support.waiting import wait_until
from tests.support.wire import exchange

SESSION_MS = 30_000


def subscription(*topics: str) -> bytes:
    """Return a subscription of the consumer's embedded protocol, version 0."""
    names = b"".join(len(topic).to_bytes(2, "big") + topic.encode() for topic in topics)
    return b"\x00\x00" + len(topics).to_bytes(4, "big") + names + b"\xff\xff\xff\xff"


def find(sock: socket.socket, group: str, version: int = 4, key_type: int = 0) -> Any:
    """Find the coordinator of a group."""
    fields: dict[str, Any] = {"coordinator_keys": [group]} if version >= 4 else {"key": group}
    response = exchange(sock, FindCoordinatorRequest(**fields, key_type=key_type), version)
    return response.coordinators[0] if version >= 4 else response


def ready(sock: socket.socket, group: str) -> None:
    """Wait until the group's coordinator has loaded its groups."""
    assert find(sock, group).error_code == ErrorCode.NONE
    wait_until(
        lambda: fetch_response(sock, group).error_code != ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "groups are loaded"
    )


def join_request(group: str, member_id: str = "", topics: tuple[str, ...] = ("t",), **fields: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        **{
            "group_id": group,
            "member_id": member_id,
            "session_timeout_ms": SESSION_MS,
            "rebalance_timeout_ms": SESSION_MS,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name="range", metadata=subscription(*topics))],
            **fields,
        }
    )


def join(sock: socket.socket, group: str, version: int = 9, **fields: Any) -> Any:
    """Join, with the id that the coordinator may issue first; return the response."""
    response = exchange(sock, join_request(group, **fields), version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = exchange(sock, join_request(group, response.member_id, **fields), version)
    return response


def sync(
    sock: socket.socket,
    group: str,
    joined: Any,
    assignments: Mapping[str, bytes],
    version: int = 5,
    instance_id: str | None = None,
) -> Any:
    request = SyncGroupRequest(
        group_id=group,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=member, assignment=assignment)
            for member, assignment in assignments.items()
        ],
    )
    return exchange(sock, request, version)


def member(sock: socket.socket, group: str, version: int = 9, **fields: Any) -> Any:
    """Join as the only member of a group; return the member when the group is stable."""
    joined = join(sock, group, version, **fields)
    assert joined.error_code == ErrorCode.NONE
    synced = sync(sock, group, joined, {joined.member_id: b"everything"}, instance_id=fields.get("group_instance_id"))
    assert (synced.error_code, bytes(synced.assignment)) == (ErrorCode.NONE, b"everything")
    return joined


def heartbeat(sock: socket.socket, group: str, joined: Any, version: int = 4) -> int:
    request = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=joined.member_id)
    code: int = exchange(sock, request, version).error_code
    return code


def leave(sock: socket.socket, group: str, joined: Any, version: int = 5) -> int:
    request = LeaveGroupRequest(group_id=group, member_id=joined.member_id)
    if version >= 3:
        request = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=joined.member_id)])
    response = exchange(sock, request, version)
    if version >= 3 and response.error_code == ErrorCode.NONE:
        response = response.members[0]
    code: int = response.error_code
    return code


def commit(
    sock: socket.socket,
    group: str,
    offsets: Mapping[tuple[str, int], int],
    version: int = 8,
    metadata: str | None = "",
    leader_epoch: int = -1,
    **fields: Any,
) -> list[int]:
    """Commit; return the errors in the order of the partitions."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(
                    partition_index=index,
                    committed_offset=offset,
                    committed_metadata=metadata,
                    committed_leader_epoch=leader_epoch,
                )
            ],
        )
        for (topic, index), offset in offsets.items()
    ]
    response = exchange(sock, OffsetCommitRequest(group_id=group, topics=topics, **fields), version)
    return [partition.error_code for topic in response.topics for partition in topic.partitions]


def fetch_response(
    sock: socket.socket,
    group: str,
    partitions: list[tuple[str, int]] | None = None,
    version: int = 8,
    require_stable: bool = False,
) -> Any:
    """Return the OffsetFetch response for a group, with `topics` and `error_code`."""
    if version >= 8:
        topics = None
        if partitions is not None:
            topics = [OffsetFetchRequestTopics(name=topic, partition_indexes=[index]) for topic, index in partitions]
        wanted = OffsetFetchRequestGroup(group_id=group, topics=topics)
        return exchange(sock, OffsetFetchRequest(groups=[wanted], require_stable=require_stable), version).groups[0]
    old = None
    if partitions is not None:
        old = [OffsetFetchRequestTopic(name=topic, partition_indexes=[index]) for topic, index in partitions]
    request = OffsetFetchRequest(group_id=group, topics=old, require_stable=require_stable if version >= 7 else False)
    return exchange(sock, request, version)


def committed(
    sock: socket.socket, group: str, partitions: list[tuple[str, int]] | None = None, version: int = 8
) -> dict[tuple[str, int], int]:
    """Return the group's offsets by partition."""
    response = fetch_response(sock, group, partitions, version)
    assert response.error_code == ErrorCode.NONE
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in response.topics
        for partition in topic.partitions
    }
