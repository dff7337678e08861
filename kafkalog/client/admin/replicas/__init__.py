"""Replicas of partitions: their brokers and directories, and their leaders.

- `replica_admin`  `ReplicaAdmin`: leader elections, reassignments, log directories
- `explanations`   why brokers changed a partition's leader, ISR or assignment
"""
