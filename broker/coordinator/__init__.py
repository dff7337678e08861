"""Coordinators: of groups and of transactions.

Their state lives in internal topics (docs/architecture.md, decision 7): `state_topic` finds the partition of a key,
among as many as `partition_count` says, `state_log` writes and reads it, and `batch_sizes` divides its records among
batches. The state machines in `group/` and `transaction/` are pure: they neither read nor write, and the services
beside them do it for them.
"""
