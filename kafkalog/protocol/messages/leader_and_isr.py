"""LeaderAndIsr (key 4, versions 0 to 7): the controller's word on who leads a broker's partitions, in ZooKeeper mode.

Version 1 says which replicas are new, 2 has the broker's epoch and groups by topic, 3 has the replicas that a
reassignment adds and removes, 4 is flexible, 5 has topic ids, 6 the state of recovery after an unclean election, and 7
says whether a KRaft controller sends it.

The versions are not negotiated: a controller sends that of its `inter.broker.protocol.version`.

Errors of the whole: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED; of a partition:
STALE_CONTROLLER_EPOCH where its leader epoch is not newer, UNKNOWN_TOPIC_OR_PARTITION where the broker is not among the
replicas, INCONSISTENT_TOPIC_ID, KAFKA_STORAGE_ERROR.
"""

from __future__ import annotations

from uuid import UUID

from kafkalog.protocol.schema import (
    INT32,
    Request,
    Response,
    Struct,
    array,
    boolean,
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class LeaderAndIsrPartitionError(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32("0+")
    error_code: int = int16("0+")


class LeaderAndIsrTopicError(Struct):
    topic_id: UUID = uuid("5+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "5+")


class LeaderAndIsrResponse(Response, key=4, versions="0-7", flexible="4+"):
    error_code: int = int16("0+")
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, "0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, "5+")


class LeaderAndIsrPartitionState(Struct):
    topic_name: str = string("0-1", ignorable=True)
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")  # of the controller that decided
    leader: int = int32("0+")  # -1 where there is none
    leader_epoch: int = int32("0+")
    isr: list[int] = array(INT32, "0+")
    partition_epoch: int = int32("0+")  # the version of the partition's znode
    replicas: list[int] = array(INT32, "0+")
    adding_replicas: list[int] = array(INT32, "3+", ignorable=True)
    removing_replicas: list[int] = array(INT32, "3+", ignorable=True)
    is_new: bool = boolean("1+", ignorable=True)  # whether the broker may create the log
    leader_recovery_state: int = int8("6+")  # 1 while the leader recovers from an unclean election


class LeaderAndIsrTopicState(Struct):
    topic_name: str = string("2+")
    topic_id: UUID = uuid("5+", ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "2+")


class LeaderAndIsrLiveLeader(Struct):
    broker_id: int = int32("0+")
    host_name: str = string("0+")
    port: int = int32("0+")


class LeaderAndIsrRequest(Request, key=4, versions="0-7", flexible="4+"):
    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("7+")
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("2+", default=-1, ignorable=True)  # of the broker that it is for
    type: int = int8("5+")  # 0 from a controller in ZooKeeper mode; 1 incremental, 2 all partitions
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, "0-1")
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, "2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader, "0+")
