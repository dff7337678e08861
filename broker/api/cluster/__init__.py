"""The APIs that brokers of a cluster call on each other. Only the inter-broker listener serves the first two.

- `control`        LeaderAndIsr, StopReplica and UpdateMetadata, which the controller sends
- `controller`     AlterPartition, ControlledShutdown and AllocateProducerIds, which it is asked
- `replica_admin`  elections and reassignments, which clients ask of the controller
"""
