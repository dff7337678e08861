"""Formats inside bytes fields of other messages, which the protocol itself does not parse.

- `consumer`  subscriptions and assignments of consumer groups, in JoinGroup and SyncGroup
- `sticky`    the user data of Kafka's sticky assignors: a member's previous assignment
"""
