"""Bytes of the consumer protocol's groups.

- `log_records`    the types of records in `__consumer_offsets`: keys and values, to bytes and back
- `group_records`  the records that a change of a group writes
- `embedded`       subscriptions and assignments that classic members send and get
"""
