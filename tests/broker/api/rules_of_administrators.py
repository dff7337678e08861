"""The rights that the requests of administrators need."""

from __future__ import annotations

from kafkalog.protocol.messages import (
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_client_quotas,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    elect_leaders,
    incremental_alter_configs,
    list_partition_reassignments,
)
from tests.broker.api.rights import (
    C31,
    G30,
    GROUP,
    I53,
    ID,
    T29,
    TOPIC,
    Kind,
    Op,
    Rule,
    cluster,
    group,
    topic,
    transactional,
)
from tests.broker.serving import TOPIC_ID

_acl = create_acls.AclCreation(
    resource_type=2, resource_name="t", principal="User:x", host="*", operation=3, permission_type=3
)

RULES: dict[str, Rule] = {
    "create topics": Rule(
        create_topics.CreateTopicsRequest(
            topics=[create_topics.CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)],
            timeout_ms=1000,
            validate_only=True,
        ),
        4,
        T29,
        ((topic(Op.CREATE),), (cluster(Op.CREATE),)),
    ),
    "create topics, and see configurations": Rule(
        create_topics.CreateTopicsRequest(
            topics=[create_topics.CreatableTopic(name="t2", num_partitions=1, replication_factor=1)],
            timeout_ms=1000,
            validate_only=True,
        ),
        7,
        T29,
        (((Op.CREATE, Kind.CLUSTER), (Op.DESCRIBE_CONFIGS, Kind.TOPIC)),),
    ),
    "delete topics": Rule(
        delete_topics.DeleteTopicsRequest(topic_names=["t2"], timeout_ms=1000), 4, T29, ((topic(Op.DELETE),),)
    ),
    "delete topics by id": Rule(
        delete_topics.DeleteTopicsRequest(
            topics=[delete_topics.DeleteTopicState(name=None, topic_id=TOPIC_ID)], timeout_ms=1000
        ),
        6,
        T29,
        ((topic(Op.DELETE),),),
    ),
    "delete records": Rule(
        delete_records.DeleteRecordsRequest(
            topics=[
                delete_records.DeleteRecordsTopic(
                    name=TOPIC, partitions=[delete_records.DeleteRecordsPartition(partition_index=0, offset=0)]
                )
            ],
            timeout_ms=1000,
        ),
        1,
        T29,
        ((topic(Op.DELETE),),),
    ),
    "create partitions": Rule(
        create_partitions.CreatePartitionsRequest(
            topics=[create_partitions.CreatePartitionsTopic(name=TOPIC, count=1, assignments=None)],
            timeout_ms=1000,
            validate_only=True,
        ),
        2,
        T29,
        ((topic(Op.ALTER),),),
    ),
    "describe acls": Rule(
        describe_acls.DescribeAclsRequest(
            resource_type_filter=1,
            pattern_type_filter=1,
            operation=1,
            permission_type=1,
            resource_name_filter=None,
            principal_filter=None,
            host_filter=None,
        ),
        2,
        C31,
        ((cluster(Op.DESCRIBE),),),
    ),
    "create acls": Rule(create_acls.CreateAclsRequest(creations=[_acl]), 2, C31, ((cluster(Op.ALTER),),)),
    "delete acls": Rule(
        delete_acls.DeleteAclsRequest(
            filters=[
                delete_acls.DeleteAclsFilter(
                    resource_type_filter=2,
                    resource_name_filter="none",
                    principal_filter=None,
                    host_filter=None,
                    operation=1,
                    permission_type=1,
                )
            ]
        ),
        2,
        C31,
        ((cluster(Op.ALTER),),),
    ),
    **{
        f"describe configs of {kind}": Rule(
            describe_configs.DescribeConfigsRequest(
                resources=[
                    describe_configs.DescribeConfigsResource(
                        resource_type=kind, resource_name=name, configuration_keys=None
                    )
                ]
            ),
            4,
            code,
            ((need(Op.DESCRIBE_CONFIGS),),),
        )
        for kind, name, code, need in (
            (2, TOPIC, T29, topic),
            (4, "0", C31, cluster),
            (8, "0", C31, cluster),
            (32, GROUP, G30, group),
        )
    },
    **{
        f"alter configs of {kind}": Rule(
            alter_configs.AlterConfigsRequest(
                resources=[alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])],
                validate_only=True,
            ),
            2,
            code,
            ((need(Op.ALTER_CONFIGS),),),
        )
        for kind, name, code, need in ((2, TOPIC, T29, topic), (4, "0", C31, cluster), (32, GROUP, G30, group))
    },
    **{
        f"incremental alter configs of {kind}": Rule(
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                resources=[
                    incremental_alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[])
                ],
                validate_only=True,
            ),
            1,
            code,
            ((need(Op.ALTER_CONFIGS),),),
        )
        for kind, name, code, need in (
            (2, TOPIC, T29, topic),
            (4, "0", C31, cluster),
            (8, "0", C31, cluster),
            (32, GROUP, G30, group),
        )
    },
    "alter replica log dirs": Rule(
        alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=[
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=[alter_replica_log_dirs.AlterReplicaLogDirTopic(name=TOPIC, partitions=[0])],
                )
            ]
        ),
        2,
        C31,
        ((cluster(Op.ALTER),),),
    ),
    "describe log dirs": Rule(
        describe_log_dirs.DescribeLogDirsRequest(topics=None), 3, C31, ((cluster(Op.DESCRIBE),),)
    ),
    "elect leaders": Rule(
        elect_leaders.ElectLeadersRequest(
            election_type=0, topic_partitions=[elect_leaders.TopicPartitions(topic=TOPIC, partitions=[0])], timeout_ms=9
        ),
        2,
        C31,
        ((cluster(Op.ALTER),),),
    ),
    "alter partition reassignments": Rule(
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(timeout_ms=1), 0, C31, ((cluster(Op.ALTER),),)
    ),
    "list partition reassignments": Rule(
        list_partition_reassignments.ListPartitionReassignmentsRequest(timeout_ms=1, topics=None),
        0,
        C31,
        ((cluster(Op.DESCRIBE),),),
    ),
    "describe client quotas": Rule(
        describe_client_quotas.DescribeClientQuotasRequest(components=[]), 1, C31, ((cluster(Op.DESCRIBE_CONFIGS),),)
    ),
    "alter client quotas": Rule(
        alter_client_quotas.AlterClientQuotasRequest(
            entries=[
                alter_client_quotas.AlterClientQuotasEntry(
                    entity=[alter_client_quotas.AlterClientQuotasEntity(entity_type="user", entity_name="x")],
                    ops=[],
                )
            ],
            validate_only=True,
        ),
        1,
        C31,
        ((cluster(Op.ALTER_CONFIGS),),),
    ),
    "describe user scram credentials": Rule(
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=[]),
        0,
        C31,
        ((cluster(Op.DESCRIBE),),),
    ),
    "alter user scram credentials": Rule(
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=[alter_user_scram_credentials.ScramCredentialDeletion(name="nobody", mechanism=1)]
        ),
        0,
        C31,
        ((cluster(Op.ALTER),),),
    ),
    "describe producers": Rule(
        describe_producers.DescribeProducersRequest(
            topics=[describe_producers.TopicRequest(name=TOPIC, partition_indexes=[0])]
        ),
        0,
        T29,
        ((topic(Op.READ),),),
    ),
    "describe transactions": Rule(
        describe_transactions.DescribeTransactionsRequest(transactional_ids=[ID]),
        0,
        I53,
        ((transactional(Op.DESCRIBE),),),
    ),
    "describe topic partitions": Rule(
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=[describe_topic_partitions.TopicRequest(name=TOPIC)]
        ),
        0,
        T29,
        ((topic(Op.DESCRIBE),),),
    ),
}
