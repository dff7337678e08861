"""Decisions on changes of ISRs that the leaders of this broker propose.

- `alter_isr`  has the controller change an ISR (AlterPartition)
- `isr_nodes`  changes an ISR in ZooKeeper, as before 2.7
"""
