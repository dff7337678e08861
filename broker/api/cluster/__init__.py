"""What brokers of a cluster ask of each other; served on the listener between brokers alone.

- `control`  LeaderAndIsr, StopReplica and UpdateMetadata, which the controller sends
"""
