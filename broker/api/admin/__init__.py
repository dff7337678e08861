"""Administration.

- `topics`         CreateTopics, DeleteTopics, CreatePartitions
- `configs`        DescribeConfigs, AlterConfigs, IncrementalAlterConfigs
- `log_dirs`       DescribeLogDirs, AlterReplicaLogDirs
- `replica_admin`  ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments
- `client_quotas`  DescribeClientQuotas, AlterClientQuotas
- `delegation_tokens`  Create-, Renew-, Expire- and DescribeDelegationToken
- `scram_users`    DescribeUserScramCredentials, AlterUserScramCredentials
- `acls`           DescribeAcls, CreateAcls, DeleteAcls
"""
