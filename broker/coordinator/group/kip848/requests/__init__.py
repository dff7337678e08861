"""Requests to a group of the consumer protocol: each makes records, a response and timers (pure).

- `heartbeat`        ConsumerGroupHeartbeat
- `describe`         ConsumerGroupDescribe
- `classic_members`  JoinGroup, SyncGroup, Heartbeat and LeaveGroup of members that speak the classic protocol
"""
