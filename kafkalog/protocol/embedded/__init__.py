"""Formats that travel inside fields of other messages, as bytes that the protocol itself does not look into.

- `consumer`  what members of a group of consumers tell each other through JoinGroup and SyncGroup
- `sticky`    the user data in which Kafka's sticky assignors keep what a member had
"""
