"""Partitions as replicas: leadership, in-sync replicas, high watermark, and operations that wait for them.

- `manager`          hosts the broker's partitions; appends and fetches over many of them
- `partition`        one partition on this broker: its log and its role
- `isolation`        how far a fetch may read
- `roles`            the state and the decisions of a leader and of a follower
- `divergence`       where the logs of a leader and of a follower diverge, by the ends of leader epochs; pure
- `isr`              rules for which followers are in sync and how far the high watermark may advance
- `isr_keeper`       proposes changes of the ISR, and takes over what was decided
- `fetching/`        followers: fetching what other brokers lead
- `nearby`           which replica a consumer should read from
- `throttles`        how fast replicas may be moved, by the throttles of topics and brokers
- `applier`          applies a controller's LeaderAndIsr and StopReplica to partitions and logs
- `purgatory`        operations that wait for a condition on partitions, or for a deadline
- `resting`          partitions that fetch sessions leave out, because nothing has changed
- `appended`         an append of the leader, and whether it may be acknowledged
- `acknowledgement`  waits until an append is acknowledged
- `flushes`          flushes of logs whose records wait to be acknowledged
- `log_dirs`         moves of partitions between log directories
- `hosting_retries`  retries partitions whose log could not be opened
"""
