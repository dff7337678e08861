"""The group coordinator.

Requests of both protocols come to `service` (KIP-848's heartbeats to `kip848.consumer_groups`). It finds the groups of
the partition of `__consumer_offsets` that the group id hashes to. `partition_groups` holds them, stores their changes
in the log and wakes them when a deadline has passed. `classic` and `kip848` decide what a group does: they are pure,
and return their effects as data.

- `service`            requests to groups, and which partitions are loaded
- `partition_groups`   the groups of one partition: loading, storing, timers, committed offsets
- `removal`            deletion of groups and offsets, and expiry of offsets
- `coordinator_parts`  objects that the groups of all partitions share
- `membership`         the interface of a group of either protocol
- `offsets`            the committed offsets of a group, also those of open transactions (pure)
- `records`            the formats of `__consumer_offsets` (pure)
- `replay`             groups from the records of a partition (pure)
- `classic`            groups of the classic protocol (pure)
- `kip848`             groups of the consumer protocol
"""
