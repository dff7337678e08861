"""ConsumerGroupHeartbeat (key 68, versions 0-1): join, keep up with and leave a group of the consumer protocol.

Flexible (KIP-848). A member says only what has changed since its last heartbeat. Version 1, which Apache Kafka has
from 4.0 on, adds subscription by a regular expression, and members choose their own ids (KIP-1082).

Errors: FENCED_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, UNSUPPORTED_ASSIGNOR,
GROUP_MAX_SIZE_REACHED, INVALID_REGULAR_EXPRESSION, INVALID_REQUEST, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
COORDINATOR_LOAD_IN_PROGRESS, GROUP_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.protocol.schema import INT32, STRING, Request, Response, Struct, array, int16, int32, string, struct, uuid


class TopicPartitions(Struct):
    topic_id: UUID = uuid("0+")
    partitions: list[int] = array(INT32, "0+")


class Assignment(Struct):
    topic_partitions: list[TopicPartitions] = array(TopicPartitions, "0+")


class ConsumerGroupHeartbeatResponse(Response, key=68, versions="0-1", flexible="0+"):
    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+", default=None)
    member_id: str | None = string("0+", nullable="0+", default=None)  # told on joining
    member_epoch: int = int32("0+")
    heartbeat_interval_ms: int = int32("0+")
    # null where unchanged
    assignment: Assignment | None = struct(Assignment, "0+", nullable="0+", default=None)


class ConsumerGroupHeartbeatRequest(Request, key=68, versions="0-1", flexible="0+"):
    group_id: str = string("0+")
    member_id: str = string("0+")  # the member's choice; in version 0 empty to join for one of the coordinator's
    member_epoch: int = int32("0+")  # 0 joins, -1 leaves, -2 leaves for a while as a static member
    instance_id: str | None = string("0+", nullable="0+", default=None)  # null where unchanged
    rack_id: str | None = string("0+", nullable="0+", default=None)  # null where unchanged
    rebalance_timeout_ms: int = int32("0+", default=-1)  # -1 where unchanged
    # null where unchanged
    subscribed_topic_names: list[str] | None = array(STRING, "0+", nullable="0+", default=None)
    # RE2, of the whole name; null where unchanged, empty for none; INVALID_REGULAR_EXPRESSION
    subscribed_topic_regex: str | None = string("1+", nullable="1+", default=None)
    # null where unchanged; UNSUPPORTED_ASSIGNOR
    server_assignor: str | None = string("0+", nullable="0+", default=None)
    # what the member owns; null where unchanged
    topic_partitions: list[TopicPartitions] | None = array(TopicPartitions, "0+", nullable="0+", default=None)
