"""The rights that the requests of producers, consumers, and brokers among each other need."""

from __future__ import annotations

from kafkalog.protocol.messages import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    allocate_producer_ids,
    alter_partition,
    consumer_group_describe,
    consumer_group_heartbeat,
    controlled_shutdown,
    delete_groups,
    describe_groups,
    end_txn,
    fetch,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leader_and_isr,
    leave_group,
    list_offsets,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    stop_replica,
    sync_group,
    txn_offset_commit,
    update_metadata,
    write_txn_markers,
)
from tests.broker.api.rights import (
    C31,
    G30,
    GROUP,
    I53,
    ID,
    T29,
    TOPIC,
    Op,
    Rule,
    cluster,
    cluster_action,
    group,
    topic,
    transactional,
)
from tests.broker.serving import RECORDS, TOPIC_ID

_offset = txn_offset_commit.TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1)
RULES: dict[str, Rule] = {
    "produce": Rule(
        produce.ProduceRequest(
            transactional_id=None,
            acks=1,
            timeout_ms=1000,
            topic_data=[
                produce.TopicProduceData(
                    name=TOPIC, partition_data=[produce.PartitionProduceData(index=0, records=memoryview(RECORDS))]
                )
            ],
        ),
        9,
        T29,
        ((topic(Op.WRITE),),),
    ),
    "fetch": Rule(
        fetch.FetchRequest(
            max_wait_ms=0,
            max_bytes=1000,
            topics=[
                fetch.FetchTopic(
                    topic=TOPIC,
                    topic_id=TOPIC_ID,
                    partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=9)],
                )
            ],
        ),
        13,
        T29,
        ((topic(Op.READ),),),
    ),
    "fetch of a follower": cluster_action(
        fetch.FetchRequest(
            replica_id=1,
            max_wait_ms=0,
            max_bytes=1000,
            topics=[
                fetch.FetchTopic(
                    topic=TOPIC,
                    topic_id=TOPIC_ID,
                    partitions=[fetch.FetchPartition(partition=0, partition_max_bytes=9)],
                )
            ],
        ),
        12,
    )._replace(denied=T29),
    "list offsets": Rule(
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=[
                list_offsets.ListOffsetsTopic(
                    name=TOPIC, partitions=[list_offsets.ListOffsetsPartition(partition_index=0, timestamp=-1)]
                )
            ],
        ),
        5,
        T29,
        ((topic(Op.DESCRIBE),),),
    ),
    "metadata": Rule(
        metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=TOPIC)], allow_auto_topic_creation=False),
        9,
        T29,
        ((topic(Op.DESCRIBE),),),
    ),
    "leader and isr": cluster_action(leader_and_isr.LeaderAndIsrRequest(), 7),
    "stop replica": cluster_action(stop_replica.StopReplicaRequest(), 4),
    "update metadata": cluster_action(update_metadata.UpdateMetadataRequest(), 8),
    "controlled shutdown": cluster_action(controlled_shutdown.ControlledShutdownRequest(), 3),
    "alter partition": cluster_action(alter_partition.AlterPartitionRequest(), 2),
    "allocate producer ids": cluster_action(allocate_producer_ids.AllocateProducerIdsRequest(), 0),
    "offset commit": Rule(
        offset_commit.OffsetCommitRequest(
            group_id=GROUP,
            topics=[
                offset_commit.OffsetCommitRequestTopic(
                    name=TOPIC,
                    partitions=[offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=1)],
                )
            ],
        ),
        7,
        G30,
        ((group(Op.READ), topic(Op.READ)),),
    ),
    "offset fetch": Rule(
        offset_fetch.OffsetFetchRequest(
            groups=[
                offset_fetch.OffsetFetchRequestGroup(
                    group_id=GROUP, topics=[offset_fetch.OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
                )
            ]
        ),
        8,
        G30,
        ((group(Op.DESCRIBE), topic(Op.DESCRIBE)),),
    ),
    "offset fetch of one group": Rule(
        offset_fetch.OffsetFetchRequest(
            group_id=GROUP, topics=[offset_fetch.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])]
        ),
        1,
        G30,
        ((group(Op.DESCRIBE), topic(Op.DESCRIBE)),),
    ),
    "find coordinator of a group": Rule(
        find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=[GROUP]), 4, G30, ((group(Op.DESCRIBE),),)
    ),
    "find coordinator of a transaction": Rule(
        find_coordinator.FindCoordinatorRequest(key_type=1, key=ID), 3, I53, ((transactional(Op.DESCRIBE),),)
    ),
    "find coordinator of a share group": Rule(
        find_coordinator.FindCoordinatorRequest(key_type=2, coordinator_keys=["s"]),
        6,
        C31,
        ((cluster(Op.CLUSTER_ACTION),),),
    ),
    "join group": Rule(
        join_group.JoinGroupRequest(group_id=GROUP, session_timeout_ms=10_000, member_id="", protocol_type="consumer"),
        5,
        G30,
        ((group(Op.READ),),),
    ),
    "heartbeat": Rule(
        heartbeat.HeartbeatRequest(group_id=GROUP, generation_id=1, member_id="m"), 4, G30, ((group(Op.READ),),)
    ),
    "leave group": Rule(
        leave_group.LeaveGroupRequest(group_id=GROUP, members=[leave_group.MemberIdentity(member_id="m")]),
        4,
        G30,
        ((group(Op.READ),),),
    ),
    "sync group": Rule(
        sync_group.SyncGroupRequest(group_id=GROUP, generation_id=1, member_id="m"), 3, G30, ((group(Op.READ),),)
    ),
    "describe groups": Rule(describe_groups.DescribeGroupsRequest(groups=[GROUP]), 5, G30, ((group(Op.DESCRIBE),),)),
    "delete groups": Rule(delete_groups.DeleteGroupsRequest(groups_names=[GROUP]), 2, G30, ((group(Op.DELETE),),)),
    "consumer group heartbeat": Rule(
        consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(
            group_id=GROUP, member_id="m", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=[TOPIC]
        ),
        0,
        G30,
        ((group(Op.READ), topic(Op.DESCRIBE)),),
    ),
    "consumer group describe": Rule(
        consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=[GROUP]), 0, G30, ((group(Op.DESCRIBE),),)
    ),
    "init producer id": Rule(
        init_producer_id.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        4,
        C31,
        ((cluster(Op.IDEMPOTENT_WRITE),), (topic(Op.WRITE),)),
    ),
    "init producer id of a transactional id": Rule(
        init_producer_id.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=1000),
        4,
        I53,
        ((transactional(Op.WRITE),),),
    ),
    "offset for leader epoch": Rule(
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=[
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic=TOPIC,
                    partitions=[offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)],
                )
            ],
        ),
        3,
        T29,
        ((topic(Op.DESCRIBE),), (cluster(Op.CLUSTER_ACTION),)),
    ),
    "add partitions to txn": Rule(
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=1,
            v3_and_below_producer_epoch=0,
            v3_and_below_topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        ),
        3,
        I53,
        ((transactional(Op.WRITE), topic(Op.WRITE)),),
    ),
    "add partitions to txn by a broker": cluster_action(
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            transactions=[
                add_partitions_to_txn.AddPartitionsToTxnTransaction(
                    transactional_id=ID,
                    producer_id=1,
                    producer_epoch=0,
                    verify_only=True,
                    topics=[add_partitions_to_txn.AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
                )
            ]
        ),
        4,
    ),
    "add offsets to txn": Rule(
        add_offsets_to_txn.AddOffsetsToTxnRequest(transactional_id=ID, producer_id=1, producer_epoch=0, group_id=GROUP),
        3,
        I53,
        ((transactional(Op.WRITE), group(Op.READ)),),
    ),
    "end txn": Rule(
        end_txn.EndTxnRequest(transactional_id=ID, producer_id=1, producer_epoch=0, committed=True),
        3,
        I53,
        ((transactional(Op.WRITE),),),
    ),
    "write txn markers": Rule(
        write_txn_markers.WriteTxnMarkersRequest(
            markers=[
                write_txn_markers.WritableTxnMarker(
                    producer_id=1,
                    producer_epoch=0,
                    transaction_result=True,
                    topics=[write_txn_markers.WritableTxnMarkerTopic(name=TOPIC, partition_indexes=[0])],
                )
            ]
        ),
        1,
        C31,
        ((cluster(Op.CLUSTER_ACTION),), (cluster(Op.ALTER),)),
    ),
    "txn offset commit": Rule(
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=1,
            producer_epoch=0,
            topics=[txn_offset_commit.TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[_offset])],
        ),
        3,
        I53,
        ((transactional(Op.WRITE), group(Op.READ), topic(Op.READ)),),
    ),
    "offset delete": Rule(
        offset_delete.OffsetDeleteRequest(
            group_id=GROUP,
            topics=[
                offset_delete.OffsetDeleteRequestTopic(
                    name=TOPIC, partitions=[offset_delete.OffsetDeleteRequestPartition(partition_index=0)]
                )
            ],
        ),
        0,
        G30,
        ((group(Op.DELETE),),),
    ),
}
