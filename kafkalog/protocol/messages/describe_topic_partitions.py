"""DescribeTopicPartitions (key 75, version 0): partitions of topics, in pages (KIP-966).

Flexible. A response has at most `response_partition_limit` partitions, and says where the next request
begins.

Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION, LEADER_NOT_AVAILABLE,
TOPIC_AUTHORIZATION_FAILED.

`explained` and `explanation` are this product's: Apache Kafka's brokers answer as if nothing was to be explained.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.protocol.schema import (
    FIRST_OWN_TAG,
    INT32,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int16,
    int32,
    int64,
    string,
    struct,
    uuid,
)

WAITS_SINCE = "reassignment waits since"
"""The beginning of `what` by which a controller says that a reassignment waits."""


class ExplainedChange(Struct):
    at_ms: int = int64("0+")  # since the epoch
    controller_epoch: int = int32("0+")  # of the controller that decided it
    what: str = string("0+")
    cause: str = string("0+")


class ExplainedFollower(Struct):
    broker_id: int = int32("0+")
    log_end_offset: int = int64("0+", default=-1)  # of the follower; -1 before its first fetch
    behind_ms: int = int64("0+", default=-1)  # since it last had all that the leader had; -1 if never in this epoch
    fetched_ms: int = int64("0+", default=-1)  # since its last fetch; -1 if there was none in this epoch


class PartitionExplanation(Struct):
    is_member: bool = boolean("0+")  # whether the broker is a member of a cluster, where anything may change
    controller_epoch: int = int32("0+", default=-1)  # -1 where the broker is not the controller
    controller_since_ms: int = int64("0+", default=-1)  # when it was elected
    known_since_ms: int = int64("0+", default=-1)  # older changes are not known: lost, or too many
    changes: list[ExplainedChange] = array(ExplainedChange, "0+")  # oldest first
    leader_epoch: int = int32("0+", default=-1)  # -1 where the broker does not lead the partition
    log_end_offset: int = int64("0+", default=-1)  # of the leader
    followers: list[ExplainedFollower] = array(ExplainedFollower, "0+")  # as the leader knows them


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int = int16("0+")
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")  # -1 where there is none
    leader_epoch: int = int32("0+", default=-1, ignorable=True)  # -1 where unknown
    replica_nodes: list[int] = array(INT32, "0+")
    isr_nodes: list[int] = array(INT32, "0+")
    # replicas that hold all below the high watermark though not in sync (KIP-966)
    eligible_leader_replicas: list[int] | None = array(INT32, "0+", nullable="0+", default=None)
    # the same, before an unclean stop
    last_known_elr: list[int] | None = array(INT32, "0+", nullable="0+", default=None)
    offline_replicas: list[int] = array(INT32, "0+", ignorable=True)
    # what the broker knows of the partition's changes and followers
    explanation: PartitionExplanation | None = struct(
        PartitionExplanation, "0+", tag=FIRST_OWN_TAG, nullable="0+", default=None, ignorable=True
    )


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="0+")
    topic_id: UUID = uuid("0+", ignorable=True)  # zero where the topic goes by its name
    is_internal: bool = boolean("0+", ignorable=True)
    partitions: list[DescribeTopicPartitionsResponsePartition] = array(DescribeTopicPartitionsResponsePartition, "0+")
    # a bit for each ACL operation; the least int32 where not asked
    topic_authorized_operations: int = int32("0+", default=-2147483648)


class Cursor(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    throttle_time_ms: int = int32("0+", ignorable=True)  # how long the request was held back for a quota
    topics: list[DescribeTopicPartitionsResponseTopic] = array(DescribeTopicPartitionsResponseTopic, "0+")
    # null where nothing is left
    next_cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)


class TopicRequest(Struct):
    name: str = string("0+")
    explained: list[int] = array(INT32, "0+", tag=FIRST_OWN_TAG, ignorable=True)  # partitions to explain


class DescribeTopicPartitionsRequest(Request, key=75, versions="0", flexible="0+"):
    topics: list[TopicRequest] = array(TopicRequest, "0+")
    response_partition_limit: int = int32("0+", default=2000)
    # where the last response ended; null to begin
    cursor: Cursor | None = struct(Cursor, "0+", nullable="0+", default=None)
