"""Administration.

- `topics`         CreateTopics, DeleteTopics, CreatePartitions
- `configs`        DescribeConfigs, AlterConfigs, IncrementalAlterConfigs
- `log_dirs`       DescribeLogDirs, AlterReplicaLogDirs
- `replica_admin`  ElectLeaders, AlterPartitionReassignments, ListPartitionReassignments
- `client_quotas`  DescribeClientQuotas, AlterClientQuotas, DescribeUserScramCredentials
- `acls`           DescribeAcls, CreateAcls, DeleteAcls
"""
