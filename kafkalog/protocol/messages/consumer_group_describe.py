"""ConsumerGroupDescribe (key 69, versions 0-1): state, members and assignments of groups of the consumer protocol.

Flexible (KIP-848). Version 1, which Apache Kafka has from 4.0 on, tells which protocol a member speaks (KIP-1099).

Errors of a group: GROUP_ID_NOT_FOUND, INVALID_GROUP_ID, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.protocol.schema import (
    INT32,
    STRING,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    string,
    struct,
    uuid,
)


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+")
    topic_name: str = string("0+")
    partitions: list[int] = array(INT32, "0+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class Member(Struct):
    member_id: str = string("0+")
    instance_id: str | None = string("0+", nullable="0+", default=None)
    rack_id: str | None = string("0+", nullable="0+", default=None)
    member_epoch: int = int32("0+")
    client_id: str = string("0+")
    client_host: str = string("0+")
    subscribed_topic_names: list[str] = array(STRING, "0+")
    subscribed_topic_regex: str | None = string("0+", nullable="0+", default=None)
    assignment: Assignment = struct(Assignment, "0+")
    target_assignment: Assignment = struct(Assignment, "0+")
    member_type: int = int8("1+", default=-1, ignorable=True)  # 0 classic protocol, 1 consumer protocol, -1 unknown


class DescribedGroup(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    group_id: str = string("0+")
    group_state: str = string("0+")  # empty where the group is unknown
    group_epoch: int = int32("0+")
    assignment_epoch: int = int32("0+")
    assignor_name: str = string("0+")
    members: list[Member] = array(Member, "0+")
    # a bit for each ACL operation; the least int32 where not asked
    authorized_operations: int = int32("0+", default=-2147483648)


class ConsumerGroupDescribeResponse(Response, key=69, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    groups: list[DescribedGroup] = array(DescribedGroup, "0+")


class ConsumerGroupDescribeRequest(Request, key=69, versions="0-1", flexible="0+"):
    group_ids: list[str] = array(STRING, "0+")
    include_authorized_operations: bool = boolean("0+")
