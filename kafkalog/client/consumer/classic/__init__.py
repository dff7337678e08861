"""A member of a group under the classic protocol, in which the group's leader assigns the partitions.

- `coordinator`          the application's side: gives partitions up and takes them, while the application polls
- `heartbeat`            the thread that sends heartbeats
- `member`               the member's state, and when a heartbeat is due; sends nothing and never waits
- `join`                 JoinGroup, the leader's assignment, SyncGroup
- `protocol`             subscriptions and assignments, which members exchange through the coordinator
"""
