"""Groups of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup).

Members agree on a generation, and its leader assigns the partitions.

`classic_groups` handles the requests. All other modules are pure: no I/O and no clock. Each call gets the current time,
and effects are returned as data.

- `classic_groups`  the requests of the protocol
- `classic_group`   a group, made of the parts that follow
- `deadlines`       when a group must be woken
- `effects`         answers, and records to be stored
- `given_ids`       member ids that were given out and have not joined yet
- `group_metadata`  state, generation and protocol of a group, and its record
- `join`            JoinGroup
- `member`          a member
- `rebalance`       the phases between two generations
- `requests`        fields of requests and responses
- `roster`          the members, their leader, and the protocols that they share
- `static_members`  static members that return (KIP-345)
- `sync`            SyncGroup
"""
