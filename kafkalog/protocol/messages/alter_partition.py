"""AlterPartition (key 56, versions 0 to 3): a leader asks the controller to change the ISR of partitions (KIP-497).

All versions are flexible. Version 1 has the state of recovery, 2 names topics by id, 3 has the epoch of each member of
the ISR (KIP-903).

Errors of the whole: NOT_CONTROLLER, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED; of a partition:
UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_CONTROLLER where the leader knows a newer epoch than the controller,
FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION, INVALID_REQUEST, INELIGIBLE_REPLICA (before version 2:
OPERATION_NOT_ATTEMPTED) where a member is not alive.

`reason` is this product's: Apache Kafka's brokers neither send nor read it.
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
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class AlterPartitionResponse(Response, key=56, versions="0-3", flexible="0+"):
    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            error_code: int = int16("0+")
            leader_id: int = int32("0+")
            leader_epoch: int = int32("0+")
            isr: list[int] = array(INT32, "0+")
            leader_recovery_state: int = int8("1+", ignorable=True)  # 1 while recovering from an unclean election
            partition_epoch: int = int32("0+")  # the version of the partition's znode

        topic_name: str = string("0-1", ignorable=True)
        topic_id: UUID = uuid("2+", ignorable=True)
        partitions: list[PartitionData] = array(PartitionData, "0+")

    throttle_time_ms: int = int32("0+")  # how long the request was held back for a quota
    error_code: int = int16("0+")
    topics: list[TopicData] = array(TopicData, "0+")


class BrokerState(Struct):
    broker_id: int = int32("3+")
    broker_epoch: int = int64("3+", default=-1)  # -1 where the leader does not know it


class AlterPartitionRequest(Request, key=56, versions="0-3", flexible="0+"):
    class TopicData(Struct):
        class PartitionData(Struct):
            partition_index: int = int32("0+")
            leader_epoch: int = int32("0+")
            new_isr: list[int] = array(INT32, "0-2")
            new_isr_with_epochs: list[BrokerState] = array(BrokerState, "3+")
            leader_recovery_state: int = int8("1+")  # 1 while recovering from an unclean election
            partition_epoch: int = int32("0+")  # that the change is based on: the version of the partition's znode
            # why the leader asks for it, with its evidence
            reason: str = string("0+", tag=FIRST_OWN_TAG, ignorable=True)

        topic_name: str = string("0-1", ignorable=True)
        topic_id: UUID = uuid("2+", ignorable=True)
        partitions: list[PartitionData] = array(PartitionData, "0+")

    broker_id: int = int32("0+")
    broker_epoch: int = int64("0+", default=-1)
    topics: list[TopicData] = array(TopicData, "0+")
