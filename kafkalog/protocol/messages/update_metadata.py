"""UpdateMetadata (key 6, versions 0 to 8): what a controller in ZooKeeper mode tells each broker of the whole cluster.

The live brokers replace all that were known; the partitions are those that changed. A leader of -2 means that the
partition is deleted.

Version 1 has endpoints, 2 racks, 3 listener names, 4 offline replicas, 5 the broker's epoch and groups by topic, 6 is
flexible, 7 has topic ids, 8 says whether a KRaft controller sends it.

The versions are not negotiated: a controller sends that of its `inter.broker.protocol.version`.

Errors: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED.
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
    int8,
    int16,
    int32,
    int64,
    string,
    uuid,
)


class UpdateMetadataResponse(Response, key=6, versions="0-8", flexible="6+"):
    error_code: int = int16("0+")


class UpdateMetadataPartitionState(Struct):
    topic_name: str = string("0-4", ignorable=True)
    partition_index: int = int32("0+")
    controller_epoch: int = int32("0+")  # of the controller that decided
    leader: int = int32("0+")  # -1 where there is none, -2 where the partition is deleted
    leader_epoch: int = int32("0+")
    isr: list[int] = array(INT32, "0+")
    zk_version: int = int32("0+")  # of the partition's znode: the partition epoch
    replicas: list[int] = array(INT32, "0+")
    offline_replicas: list[int] = array(INT32, "4+", ignorable=True)


class UpdateMetadataTopicState(Struct):
    topic_name: str = string("5+")
    topic_id: UUID = uuid("7+", ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "5+")


class UpdateMetadataEndpoint(Struct):
    port: int = int32("1+")
    host: str = string("1+")
    listener: str = string("3+", ignorable=True)
    security_protocol: int = int16("1+")  # 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL


class UpdateMetadataBroker(Struct):
    id: int = int32("0+")
    v0_host: str = string("0", ignorable=True)
    v0_port: int = int32("0", ignorable=True)
    endpoints: list[UpdateMetadataEndpoint] = array(UpdateMetadataEndpoint, "1+", ignorable=True)
    rack: str | None = string("2+", nullable="0+", ignorable=True)


class UpdateMetadataChange(Struct):
    number: int = int64("6+")  # of this text in the controller's term, from 1 on: a request may come twice
    topic_name: str = string("6+")
    partitions: list[int] = array(INT32, "6+")
    what: str = string("6+")  # such as `leader 1 -> 2, isr [1, 2] -> [2]`
    cause: str = string("6+")  # with the evidence


class UpdateMetadataRequest(Request, key=6, versions="0-8", flexible="6+"):
    controller_id: int = int32("0+")
    is_kraft_controller: bool = boolean("8+")
    type: int = int8("8+", tag=0)  # 0 from a controller in ZooKeeper mode; 1 incremental, 2 all partitions
    controller_epoch: int = int32("0+")
    broker_epoch: int = int64("5+", default=-1, ignorable=True)  # of the broker that it is for
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = array(UpdateMetadataPartitionState, "0-4")
    topic_states: list[UpdateMetadataTopicState] = array(UpdateMetadataTopicState, "5+")
    live_brokers: list[UpdateMetadataBroker] = array(UpdateMetadataBroker, "0+")
    # why partitions have changed since the request before: Apache Kafka knows no such field
    changes: list[UpdateMetadataChange] = array(UpdateMetadataChange, "6+", tag=FIRST_OWN_TAG, ignorable=True)
