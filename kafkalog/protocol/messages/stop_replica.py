"""StopReplica (key 5, versions 0 to 4): the controller takes replicas out of service, and deletes them if it says so.

Version 1 has the broker's epoch and groups by topic, 2 is flexible, 3 has a leader epoch for each partition, and says
for each whether it is deleted, 4 says whether a KRaft controller sends it.

The versions are not negotiated: a controller sends that of its `inter.broker.protocol.version`.

Errors of the whole: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED; of a partition:
FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from kafkalog.protocol.schema import INT32, Request, Response, Struct, array, boolean, int16, int32, int64, string


class StopReplicaPartitionError(Struct):
    topic_name: str = string("0+")
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class StopReplicaResponse(Response, key=5, versions="0-4", flexible="2+"):
    error_code: int = int16("0+")
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError, "0+")


class StopReplicaPartitionV0(Struct):
    topic_name: str = string("0")
    partition_index: int = int32("0")


class StopReplicaTopicV1(Struct):
    name: str = string("1-2")
    partition_indexes: list[int] = array(INT32, "1-2")


class StopReplicaPartitionState(Struct):
    partition_index: int = int32("3+")
    leader_epoch: int = int32("3+", default=-1)  # -1 where there is none, -2 where the topic is deleted
    delete_partition: bool = boolean("3+")


class StopReplicaTopicState(Struct):
    topic_name: str = string("3+")
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState, "3+")


class StopReplicaRequest(Request, key=5, versions="0-4", flexible="2+"):
    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("4+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("1+", default=-1, ignorable=True)  # of the broker that it is for
    delete_partitions: bool = boolean("0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, "0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, "1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, "3+")
