"""Administration.

- `topics`         CreateTopics, DeleteTopics, CreatePartitions
- `configs`        DescribeConfigs, AlterConfigs, IncrementalAlterConfigs
- `log_dirs`       DescribeLogDirs, AlterReplicaLogDirs
- `replica_admin`  ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments
- `client_quotas`  DescribeClientQuotas, AlterClientQuotas
- `scram_users`    DescribeUserScramCredentials, AlterUserScramCredentials
- `acls`           DescribeAcls, CreateAcls, DeleteAcls
"""
