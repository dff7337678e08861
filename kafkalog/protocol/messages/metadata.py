"""Metadata (key 3, versions 0 to 12): brokers, and topics with their partitions, leaders and replicas.

Version 1 tells the controller and asks for all topics with null, 4 can forbid creating topics, 5 tells
offline replicas, 7 leader epochs, 8 authorized operations, 9 is flexible, 10 has topic ids, 12 can ask by
id.

Errors of a topic: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION,
LEADER_NOT_AVAILABLE, INVALID_REPLICATION_FACTOR while one is created, TOPIC_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, boolean, int16, int32, string, uuid


class MetadataResponseBroker(Struct):
    node_id: int = int32("0+")
    host: str = string("0+")
    port: int = int32("0+")
    # null where the broker has none
    rack: str | None = string("1+", nullable="1+", default=None, ignorable=True)


class MetadataResponsePartition(Struct):
    error_code: int = int16("0+")  # LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND, REPLICA_NOT_AVAILABLE
    partition_index: int = int32("0+")
    leader_id: int = int32("0+")  # -1 where there is none
    leader_epoch: int = int32("7+", default=-1, ignorable=True)  # -1 where unknown
    replica_nodes: list[int] = array(INT32, "0+")
    isr_nodes: list[int] = array(INT32, "0+")  # the replicas in sync
    # replicas on dead brokers or in failed log directories
    offline_replicas: list[int] = array(INT32, "5+", ignorable=True)


class MetadataResponseTopic(Struct):
    # UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, LEADER_NOT_AVAILABLE
    error_code: int = int16("0+")
    name: str | None = string("0+", nullable="12+")  # null where an id was asked for that no topic has
    topic_id: UUID = uuid("10+", ignorable=True)  # zero where a name was asked for that no topic has
    is_internal: bool = boolean("1+", ignorable=True)
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition, "0+")
    # a bit for each ACL operation; the least int32 where not asked
    topic_authorized_operations: int = int32("8+", default=-2147483648)


class MetadataResponse(Response, key=3, versions="0-12", flexible="9+"):
    throttle_time_ms: int = int32("3+", ignorable=True)  # how long the request was held back for a quota
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker, "0+")
    cluster_id: str | None = string("2+", nullable="2+", default=None, ignorable=True)
    controller_id: int = int32("1+", default=-1, ignorable=True)  # -1 where there is none at present
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic, "0+")
    # a bit for each ACL operation; the least int32 where not asked
    cluster_authorized_operations: int = int32("8-10", default=-2147483648)


class MetadataRequestTopic(Struct):
    topic_id: UUID = uuid("10+", ignorable=True)  # zero where the topic goes by its name
    name: str | None = string("0+", nullable="10+")  # null to ask by id


class MetadataRequest(Request, key=3, versions="0-12", flexible="9+"):
    # null asks for all; in version 0 an empty list does
    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, "0+", nullable="1+")
    # older versions create as the broker is configured
    allow_auto_topic_creation: bool = boolean("4+", default=True)
    include_cluster_authorized_operations: bool = boolean("8-10")
    include_topic_authorized_operations: bool = boolean("8+")
