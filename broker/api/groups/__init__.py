"""Groups of consumers.

- `coordinators`     FindCoordinator
- `groups`           JoinGroup, SyncGroup, Heartbeat, LeaveGroup, ListGroups, DescribeGroups, DeleteGroups
- `group_offsets`    OffsetCommit, OffsetFetch, OffsetDelete, TxnOffsetCommit
- `consumer_groups`  ConsumerGroupHeartbeat, ConsumerGroupDescribe (KIP-848)
"""
