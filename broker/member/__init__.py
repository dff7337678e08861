"""A broker as a member of a cluster over ZooKeeper, which Apache Kafka's brokers may share.

- `member`        puts the parts together, and starts and stops them
- `identity`      the cluster's id, and a number for a broker without one
- `registration`  the node by which the cluster knows that this broker is alive
- `lease`         how long a broker that is cut off from ZooKeeper may go on
- `update`        what an UpdateMetadata request changes in the state of the cluster; pure
- `orders`        LeaderAndIsr and StopReplica requests as values, and their answers; pure
- `control`       carries out what the controller sends
- `role_check`     what differs between the role of a replica and ZooKeeper; pure
- `role_survey`    reads what differs for all replicas
- `role_mending`   mends what differs; sets strays aside
- `reconciliation` decides when to look for differences, and which of them are mended
- `alter_isr`     has the controller change an ISR (AlterPartition)
- `isr_nodes`     changes an ISR in ZooKeeper, as before 2.7
- `group_offsets` offsets of groups in ZooKeeper, for clients of Kafka 0.8
- `leaving`       has the controller move leaderships before this broker stops
"""
