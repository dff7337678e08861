"""Coordinators: of groups and of transactions.

Their state lives in internal topics (docs/architecture.md, decision 7): `state_topic` says where, `state_log` writes
and reads it. The state machines in `group/` and `transaction/` know nothing of either.
"""
