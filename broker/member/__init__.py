"""A broker as a member of a cluster over ZooKeeper, which Apache Kafka's brokers may share.

- `member`           puts the parts together, and starts and stops them
- `identity`         the cluster's id, and a number for a broker without one
- `registration`     the node by which the cluster knows that this broker is alive
- `lease`            how long a broker that is cut off from ZooKeeper may go on leading partitions
- `control/`         what the controller sends: roles, replicas to stop, and the cluster's metadata
- `reconciliation/`  looks whether the roles here are those in ZooKeeper, and mends what differs
- `isr/`             how a leader's change of an ISR is decided: by the controller, or by a write in ZooKeeper
- `group_offsets`    offsets of groups in ZooKeeper, for clients of Kafka 0.8
- `partition_counts` how many partitions topics have, as ZooKeeper says
- `leaving`          has the controller move leaderships before this broker stops
"""
