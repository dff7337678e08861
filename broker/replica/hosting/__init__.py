"""The partitions that this broker hosts, and the log directory of each.

- `applier`   applies a controller's LeaderAndIsr and StopReplica to partitions and logs
- `retries`   retries partitions whose log could not be opened
- `log_dirs`  moves of partitions between log directories
"""
