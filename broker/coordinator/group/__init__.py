"""The group coordinator.

Requests of members come to `classic.classic_groups` or `kip848.consumer_groups`, by their protocol. Requests about
offsets and groups come to `service`, which finds the groups of the partition of `__consumer_offsets` that the group id
hashes to. `partition_groups` holds them, stores their changes in the log and wakes them when a deadline has passed. The
other modules of `classic` and `kip848` decide what a group does: they are pure, and return their effects as data.

- `service`            requests about groups and offsets, and which partitions are loaded
- `partition_groups`   the groups of one partition: loading, storing, timers, committed offsets
- `removal`            deletion of groups and offsets, and expiry of offsets
- `pace`               work on many groups in turns with requests
- `coordinator_parts`  objects that the groups of all partitions share
- `membership`         the interface of a group of either protocol
- `offsets`            the committed offsets of a group, also those of open transactions (pure)
- `records`            the formats of `__consumer_offsets` (pure)
- `replay`             groups from the records of a partition (pure)
- `classic`            groups of the classic protocol
- `kip848`             groups of the consumer protocol
"""
