"""The acknowledgement of a leader's append once it is replicated, and flushed where `flush.messages` demands it.

- `appended`  a batch that the leader has appended, and whether it may be acknowledged
- `waiting`   waits until an append is acknowledged
- `flushes`   flushes of logs whose records wait to be acknowledged
"""
