"""What brokers of a cluster ask of each other; served on the listener between brokers alone.

- `control`        LeaderAndIsr, StopReplica and UpdateMetadata, which the controller sends
- `controller`     AlterPartition, ControlledShutdown and AllocateProducerIds, which it is asked
- `replica_admin`  elections and reassignments, which clients ask of the controller
"""
