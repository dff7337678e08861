"""A member of a group under the consumer protocol (KIP-848), in which the coordinator assigns the partitions.

- `coordinator`          the application's side: gives partitions up and takes them, while the application polls
- `heartbeat`            the thread that sends heartbeats, by which a member joins, acknowledges and leaves
- `member`               the member's state, and when a heartbeat is due; sends nothing and never waits
"""
