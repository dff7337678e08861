"""Groups of the consumer protocol of KIP-848: the coordinator assigns partitions and leads each member towards them.

Everything here is pure: values in, values out, no clock and no I/O. A group (`group`) is what the records of its log
(`log_records`) say. A request makes new records, a response and timers (`heartbeat`, `membership`, `classic_members`);
the service appends the records and lets the group replay them.

- `advance`        a member's change and all that follows from it
- `assignors`      the coordinator's assignors
- `config`         settings of consumer groups
- `context`        what a request is given, and what comes of it
- `describe`       ConsumerGroupDescribe
- `embedded`       subscriptions and assignments of classic members
- `group_records`  the records that a group writes
- `model`          members, their states, and sets of partitions
- `reconcile`      one step of a member towards its target assignment
- `topic_regex`    regular expressions over topic names
"""
