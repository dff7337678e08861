"""Groups of the classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup).

Members agree on a generation, and its leader assigns the partitions.

Nothing here does I/O or reads a clock: each call says what moment it is, and what has to be done is left as data.

- ``classic_group``   a group, made of the parts that follow
- ``deadlines``       when a group has to be woken
- ``effects``         answers, and records to be stored
- ``group_metadata``  state, generation and protocol of a group, and its record
- ``join``            JoinGroup
- ``member``          a member
- ``rebalance``       the way to the next generation
- ``requests``        what members ask and are told
- ``roster``          the members, who leads them, and what protocols they share
- ``static_members``  static members that are back (KIP-345)
- ``sync``            SyncGroup
"""
