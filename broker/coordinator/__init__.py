"""Coordinators: of groups and of transactions.

Their state lives in internal topics (docs/architecture.md, decision 7): `state_topic` finds the partition of a key,
`state_log` writes and reads it. The state machines in `group/` and `transaction/` use neither.
"""
