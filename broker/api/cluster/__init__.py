"""The APIs that brokers of a cluster call on each other. Only the inter-broker listener serves the first two.

- `control`        LeaderAndIsr, StopReplica and UpdateMetadata, which the controller sends
- `controller`     AlterPartition, ControlledShutdown and AllocateProducerIds, which it is asked
- `replica_admin`  elections and reassignments, which clients ask of the controller

For other handlers:

- `explanations`     why a partition changed, for DescribeTopicPartitions
- `unknown_cluster`  requests about the cluster wait until the controller has told this broker of it
"""
