"""CreateTopics (key 19, versions 0 to 7): create topics; the controller does it.

Version 1 can check without creating, 4 takes the broker's defaults, 5 is flexible and tells the new topics'
configs, 7 their ids.

Errors of a topic: TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS,
INVALID_REPLICATION_FACTOR, INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION,
NOT_CONTROLLER, REQUEST_TIMED_OUT, THROTTLING_QUOTA_EXCEEDED, TOPIC_AUTHORIZATION_FAILED,
CLUSTER_AUTHORIZATION_FAILED.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, boolean, int8, int16, int32, string, uuid


class CreatableTopicConfigs(Struct):
    name: str = string("5+")
    value: str | None = string("5+", nullable="5+")  # null where sensitive
    read_only: bool = boolean("5+")
    # 1 topic, 2 broker, 3 all brokers, 4 static, 5 default, 6 logger; 0 unknown
    config_source: int = int8("5+", default=-1, ignorable=True)
    is_sensitive: bool = boolean("5+")  # a secret, whose value is never told


class CreatableTopicResult(Struct):
    name: str = string("0+")
    topic_id: UUID = uuid("7+", ignorable=True)  # zero where the topic goes by its name
    error_code: int = int16("0+")
    error_message: str | None = string("1+", nullable="0+", ignorable=True)
    # why configs are not told: TOPIC_AUTHORIZATION_FAILED
    topic_config_error_code: int = int16("5+", tag=0, ignorable=True)
    num_partitions: int = int32("5+", default=-1, ignorable=True)
    replication_factor: int = int16("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = array(CreatableTopicConfigs, "5+", nullable="5+", ignorable=True)


class CreateTopicsResponse(Response, key=19, versions="0-7", flexible="5+"):
    throttle_time_ms: int = int32("2+", ignorable=True)  # how long the request was held back for a quota
    topics: list[CreatableTopicResult] = array(CreatableTopicResult, "0+")


class CreatableReplicaAssignment(Struct):
    partition_index: int = int32("0+")
    broker_ids: list[int] = array(INT32, "0+")


class CreatableTopicConfig(Struct):
    name: str = string("0+")
    value: str | None = string("0+", nullable="0+")


class CreatableTopic(Struct):
    name: str = string("0+")
    num_partitions: int = int32("0+")  # -1 for the broker's default, or with assignments
    replication_factor: int = int16("0+")  # -1 for the broker's default, or with assignments
    # empty to let the controller place replicas
    assignments: list[CreatableReplicaAssignment] = array(CreatableReplicaAssignment, "0+")
    configs: list[CreatableTopicConfig] = array(CreatableTopicConfig, "0+")


class CreateTopicsRequest(Request, key=19, versions="0-7", flexible="5+"):
    topics: list[CreatableTopic] = array(CreatableTopic, "0+")
    timeout_ms: int = int32("0+", default=60000)  # REQUEST_TIMED_OUT after that
    validate_only: bool = boolean("1+")  # check, and change nothing
